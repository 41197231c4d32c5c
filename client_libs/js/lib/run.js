// SPDX-License-Identifier: PostgreSQL
'use strict';

const { randomUUID } = require('node:crypto');
const { isLost, isWorthAnother, mayBeCommitted, sqlstate } = require('./errors.js');
const { FIND_ID, FIND_PSP, TIMEOUT_MS, isCommitted } = require('./outcome.js');
const { pause, pauseMs } = require('./pause.js');
const { Places } = require('./places.js');
const { ask, store } = require('./request.js');

const TOKEN = 'SELECT psp.token() AS token';
const WAIT_FOR = 'SELECT psp.wait_for($1)';
// A COMMIT that is decided after everything that is known to be committed: its token covers all that.
const FENCE = "SELECT psp.request_done('null') FROM psp.request($1, '')";

/**
 * To be called once for each pool; returns it. A session can be ended while nobody waits for it: Node ends a program
 * that does not listen then. With these listeners the next query fails.
 */
function listen(pool) {
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  return pool;
}

/** One attempt, in a session of the pool. `tried` gets the result and, from the moment at which only COMMIT is left, the id. */
async function once(pool, work, { request, isolation, token, places, place, noteToken }, tried) {
  const client = await pool.connect();
  let error;
  try {
    await reach(client, places, place);
    if (token) await client.query(WAIT_FOR, [token]);
    tried.hasBegun = true;
    await client.query(`BEGIN${isolation ? ` ISOLATION LEVEL ${isolation}` : ''}`);
    const known = request ? await ask(client, request) : null;
    tried.result = known ? known.result : await work(client);
    if (request && !known) tried.result = await store(client, tried.result);
    tried.hasPsp = (await client.query(FIND_PSP)).rows[0].found;
    if (tried.hasPsp) tried.id = (await client.query(FIND_ID)).rows[0].id;
    tried.isCommitting = true;
    if ((await client.query('COMMIT')).command === 'ROLLBACK') throw new NothingCommitted();
    if (tried.hasPsp && noteToken) await noteToken(client);
  } catch (caught) {
    error = caught;
  }
  client.release(error !== undefined); // true: closes it
  if (error) throw error;
}

/** PostgreSQL's COMMIT rolls back in silence after a statement that has failed. */
class NothingCommitted extends Error {
  constructor() {
    super('psp: a statement of the transaction has failed: nothing is committed');
    this.code = '25P02';
  }
}

/** Waits for what was committed and seen before. */
async function reach(client, places, place) {
  const wanted = places.wantedAt(place);
  if (!wanted) return;
  try {
    await client.query(WAIT_FOR, [wanted]);
  } catch (error) {
    if (!['22023', '55000'].includes(sqlstate(error))) throw error;
    places.forget(); // it is not in the cluster any more
  }
}

/** Of what the session sees. Null: it joins, for example. Undefined: it is lost. */
async function tokenOf(client) {
  try {
    return (await client.query(TOKEN)).rows[0].token;
  } catch (error) {
    return isUnreachable(error) ? undefined : null;
  }
}

/** Of what was committed, though its session is lost. Null: no semi-primary gives one in time. */
async function fencedToken(all, places, timeoutMs = TIMEOUT_MS) {
  const endMs = Date.now() + timeoutMs;
  for (let failures = 1; ; failures++) {
    const place = places.at;
    let client;
    try {
      client = await all[place].connect();
      await client.query(FENCE, [`psp-client ${randomUUID()}`]);
      const { token } = (await client.query(TOKEN)).rows[0];
      client.release();
      return places.noteFence(token);
    } catch (error) {
      client?.release(true);
      if (isUnreachable(error)) places.leave(place);
      if (Date.now() >= endMs || !isWorthAnother(error)) return null;
    }
    await pause(pauseMs(failures, 100, 1500));
  }
}

/** Of several pools, by their list: which one is used, and what was committed and seen. */
const known = new WeakMap();

function placesOf(pools) {
  if (!Array.isArray(pools)) return new Places(1);
  if (!known.has(pools)) known.set(pools, new Places(pools.length));
  return known.get(pools);
}

/** Whether another semi-primary may do better. */
const isUnreachable = (error) => isLost(error) || ['08006', '57P01', '57P02', '57P03'].includes(sqlstate(error));

/** Whether the transaction is in after all. Throws what is to be told if nobody knows. */
async function isIn(pools, tried, error, timeoutMs) {
  if (!tried.isCommitting || !mayBeCommitted(error)) return false;
  if (!tried.hasPsp) throw error; // nobody can tell
  return Boolean(tried.id) && isCommitted(pools, tried.id, { timeoutMs });
}

/**
 * Commits what `work(client)` does in one transaction, once; resolves to what it returns. The work may run several
 * times. `pools`: a pg.Pool, or several, the nearest semi-primary first: where one cannot be reached, the next one is
 * taken, once it has what was committed before. Rejects with the error of the last attempt, or OutcomeUnknown.
 */
async function run(pools, work, options = {}) {
  const { attempts = 30, firstPauseMs = 10, longestPauseMs = 2000, timeoutMs, onToken } = options;
  const all = [].concat(pools);
  const places = placesOf(pools);
  const needsToken = all.length > 1 || onToken;
  for (let failures = 1; ; failures++) {
    const tried = {};
    const place = places.at;
    let token;
    const noteToken = async (client) => {
      token = await tokenOf(client);
      if (token) places.note(place, token);
    };
    try {
      await once(all[place], work, { ...options, places, place, noteToken: needsToken && noteToken }, tried);
    } catch (error) {
      if (isUnreachable(error)) places.leave(place);
      if (!(await isIn(pools, tried, error, timeoutMs))) {
        const isInVain = !tried.hasBegun && sqlstate(error) === '57014'; // a user may have invented the token
        if (failures >= attempts || isInVain || !isWorthAnother(error)) throw error;
        await pause(pauseMs(failures, firstPauseMs, longestPauseMs));
        continue;
      }
    }
    if (token === undefined && needsToken && tried.hasPsp) token = await fencedToken(all, places, timeoutMs);
    if (token) onToken?.(token);
    return tried.result;
  }
}

module.exports = { listen, run };
