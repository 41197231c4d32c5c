// An application with a job queue. Arguments: URL, command, its arguments.
//
// schema: makes the engine's tables.
// defer FIRST END: orders FIRST to END - 1.
// work [PAUSE_S]: serves orders until it is ended.
// recover: frees the jobs that dead workers hold; no other worker may be at work.
import { setTimeout as sleep } from "node:timers/promises";

import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const [url, command, ...rest] = process.argv.slice(2);
const pool = new pg.Pool({ connectionString: url });
pool.on("error", () => {}); // a connection that is lost: the next query makes another one
const logger = new Logger(() => (level, message) => level === "error" && console.log(message));
const options = { pgPool: pool, logger };

// A job may run twice, so its rows have a key that tells.
async function pay({ number }, helpers) {
  console.log(`pays ${number}`);
  await sleep(1000 * Number(rest[0] ?? 0));
  await helpers.withPgClient(async (client) => {
    await client.query("BEGIN");
    try {
      const done = await client.query("INSERT INTO unit (name) VALUES ($1) ON CONFLICT DO NOTHING", [`order ${number}`]);
      if (done.rowCount === 1) await client.query("UPDATE counter SET value = value + 1");
      await client.query("COMMIT");
    } catch (error) {
      await client.query("ROLLBACK").catch(() => {});
      throw error; // the engine tries again
    }
  });
}

if (command === "work") {
  const runner = await run({ ...options, concurrency: 4, pollInterval: 500, taskList: { pay }, noHandleSignals: true });
  await runner.promise;
} else {
  const utils = await makeWorkerUtils(options);
  if (command === "schema") {
    await utils.migrate();
  } else if (command === "recover") {
    const held = await pool.query("SELECT DISTINCT locked_by FROM graphile_worker.jobs WHERE locked_by IS NOT NULL");
    await utils.forceUnlockWorkers(held.rows.map((row) => row.locked_by));
  } else {
    const [first, end] = rest.map(Number);
    for (let number = first; number < end; ++number) {
      await utils.addJob("pay", { number }, { maxAttempts: 100 });
    }
  }
  await utils.release();
  await pool.end();
}
