// A service with the Idempotency-Key header at each of two semi-primaries. Arguments: the URLs' parts behind the driver.
const assert = require('node:assert');
const http = require('node:http');
const { Pool } = require('pg');
const { idempotent, listen, readYourWrites, run } = require('psp-client');

const pools = process.argv.slice(2).map((url) => listen(new Pool({ connectionString: `postgresql://${url}` })));

async function add(client, name) {
  await client.query('UPDATE counter SET value = value + 1');
  await client.query('INSERT INTO unit (name) VALUES ($1)', [name]);
}

async function pay(client, call) {
  await add(client, JSON.parse(call.body).name);
  return { status: 201, body: '{"paid":true}' };
}

function serve(handler) {
  return new Promise((resolve) => {
    const server = http.createServer(handler).listen(0, '127.0.0.1', () => resolve(server));
  });
}

const post = (server, key, name) => fetch(`http://127.0.0.1:${server.address().port}/pay`, {
  method: 'POST', body: JSON.stringify({ name }), headers: key ? { 'Idempotency-Key': key } : {},
});

async function answer(response) {
  return [response.status, await response.text()];
}

// One transaction for a call, and the same answer at each server, whatever comes between.
async function checkKeys(servers) {
  assert.strictEqual((await post(servers[0], undefined, 'no key')).status, 400);
  const paid = [201, '{"paid":true}'];
  assert.deepStrictEqual(await answer(await post(servers[0], '"order 1"', 'once')), paid);
  assert.deepStrictEqual(await answer(await post(servers[0], 'order 1', 'once')), paid);
  assert.strictEqual((await post(servers[0], 'order 1', 'another')).status, 422);
  const many = await Promise.all([0, 1, 0, 1].map((n) => post(servers[n], 'order 2', 'raced').then(answer)));
  assert.ok(many.every(([status]) => status === 201 || status === 409), JSON.stringify(many));
  assert.deepStrictEqual(await answer(await post(servers[1], 'order 1', 'once')), paid);
}

// A user who writes at one server and reads at the next one.
async function checkTokens() {
  let cookie;
  const response = { setHeader: (name, value) => { cookie = value.split(';')[0]; } };
  const write = { headers: {} };
  readYourWrites()(write, response, () => {});
  await run(pools[0], (client) => add(client, 'seen'), { onToken: write.pspSetToken });
  const read = { headers: { cookie } };
  readYourWrites()(read, response, () => {});
  const found = await run(pools[1], (client) => client.query("SELECT FROM unit WHERE name = 'seen'"), { token: read.pspToken });
  assert.strictEqual(found.rowCount, 1);
  await assert.rejects(run(pools[1], async () => 1, { token: 'psp1.wrong' }), { code: '22023' });
}

async function main() {
  const servers = await Promise.all(pools.map((pool) => serve(idempotent(pool, pay, { attempts: 200 }))));
  await checkKeys(servers);
  await checkTokens();
  servers.forEach((server) => server.close());
  await Promise.all(pools.map((pool) => pool.end()));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
