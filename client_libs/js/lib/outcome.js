// SPDX-License-Identifier: PostgreSQL
'use strict';

const { OutcomeUnknown, isWorthAnother } = require('./errors.js');
const { pause, pauseMs } = require('./pause.js');

const FIND_PSP = "SELECT pg_catalog.to_regprocedure('psp.transaction_id()') IS NOT NULL AS found";
// NULL: it has written nothing, and nobody will have to ask.
const FIND_ID =
  'SELECT CASE WHEN pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL THEN psp.transaction_id()::text END AS id';
const TIMEOUT_MS = 60_000;

/**
 * 'committed', 'aborted' or, of a very old transaction, 'forgotten'. Asks the pools in turns until one answers.
 * Throws OutcomeUnknown after `timeoutMs`.
 */
async function outcome(pools, txId, { timeoutMs = TIMEOUT_MS } = {}) {
  const all = [].concat(pools);
  const endMs = Date.now() + timeoutMs;
  for (let failures = 1; ; failures++) {
    try {
      return (await all[failures % all.length].query('SELECT psp.outcome($1::text::uuid)::text AS is', [txId])).rows[0].is;
    } catch (error) {
      if (Date.now() >= endMs || !isWorthAnother(error)) throw new OutcomeUnknown(txId, error);
      await pause(Math.min(pauseMs(failures, 100, 1500), Math.max(endMs - Date.now(), 0)));
    }
  }
}

async function isCommitted(pools, txId, options) {
  const is = await outcome(pools, txId, options);
  if (is === 'forgotten') throw new OutcomeUnknown(txId, new Error('it is forgotten'));
  return is === 'committed';
}

module.exports = { FIND_ID, FIND_PSP, TIMEOUT_MS, isCommitted, outcome };
