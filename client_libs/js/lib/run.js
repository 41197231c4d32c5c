// SPDX-License-Identifier: PostgreSQL
'use strict';

const { isLost, isWorthAnother, mayBeCommitted } = require('./errors.js');
const { FIND_ID, FIND_PSP, isCommitted } = require('./outcome.js');
const { pause, pauseMs } = require('./pause.js');
const { ask, store } = require('./request.js');

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
async function once(pool, work, { request, isolation, token, noteToken }, tried) {
  const client = await pool.connect();
  let error;
  try {
    if (token) await client.query('SELECT psp.wait_for($1)', [token]);
    await client.query(`BEGIN${isolation ? ` ISOLATION LEVEL ${isolation}` : ''}`);
    const known = request ? await ask(client, request) : null;
    tried.result = known ? known.result : await work(client);
    if (request && !known) tried.result = await store(client, tried.result);
    tried.hasPsp = (await client.query(FIND_PSP)).rows[0].found;
    if (tried.hasPsp) tried.id = (await client.query(FIND_ID)).rows[0].id;
    tried.isCommitting = true;
    if ((await client.query('COMMIT')).command === 'ROLLBACK') throw new NothingCommitted();
    if (tried.hasPsp) await noteToken?.(client);
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

/** Of what the session sees. Null: it cannot be had, which changes nothing about the COMMIT. */
async function tokenOf(client) {
  try {
    return (await client.query('SELECT psp.token() AS token')).rows[0].token;
  } catch {
    return null;
  }
}

/** Of several pools: the one that is used, and the token of the newest COMMIT with the pool that gave it. By the list of pools. */
const places = new WeakMap();

function placeOf(pools) {
  if (!places.has(pools)) places.set(pools, { at: 0, token: null, tokenOf: 0 });
  return places.get(pools);
}

/** Whether another semi-primary may do better. */
const isUnreachable = (error) => isLost(error) || ['08006', '57P01', '57P02', '57P03', '25006'].includes(error.code);

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
  const place = Array.isArray(pools) ? placeOf(pools) : { at: 0, token: null };
  const noteToken = async (client) => {
    place.token = await tokenOf(client);
    place.tokenOf = place.at;
    if (place.token) onToken?.(place.token);
  };
  for (let failures = 1; ; failures++) {
    const tried = {};
    const ofOther = place.token && place.tokenOf !== place.at ? place.token : undefined;
    try {
      await once(all[place.at], work, {
        ...options,
        token: options.token || ofOther,
        noteToken: all.length > 1 || onToken ? noteToken : undefined,
      }, tried);
      return tried.result;
    } catch (error) {
      if (await isIn(pools, tried, error, timeoutMs)) return tried.result;
      if (failures >= attempts || !isWorthAnother(error)) throw error;
      if (isUnreachable(error)) place.at = (place.at + 1) % all.length;
    }
    await pause(pauseMs(failures, firstPauseMs, longestPauseMs));
  }
}

module.exports = { listen, run };
