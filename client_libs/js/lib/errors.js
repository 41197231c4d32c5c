// SPDX-License-Identifier: PostgreSQL
// What an error says of a transaction; the same rules as in the packages for Python, Go and Java.
'use strict';

/** Nobody has told in time whether the transaction is committed. `outcome` asks again, at any time. */
class OutcomeUnknown extends Error {
  constructor(txId, cause) {
    super(`psp: transaction ${txId} may be committed or not: ${cause && cause.message}`);
    this.name = 'OutcomeUnknown';
    this.code = '08007';
    this.txId = txId;
    this.cause = cause;
  }
}

/** The request has failed for good, by psp.request_failed. `result`: what is stored of that. */
class RequestFailed extends Error {
  constructor(result) {
    super(`psp: the request has failed: ${JSON.stringify(result)}`);
    this.name = 'RequestFailed';
    this.result = result;
  }
}

const AGAIN = ['40', '08', '53', '57']; // classes of SQLSTATEs after which the same work may succeed
const ROLLED_BACK = ['40001', '40P01', '40000', '08006', '0A000', '53200', '54000'];

// An error of the server has a severity and an SQLSTATE; a lost connection has a code of the operating system's, or this text.
const sqlstate = (error) => (error.severity ? error.code : '');
const isLost = (error) =>
  !error.severity && Boolean(error.syscall || /^Connection terminated|not queryable|^timeout e/.test(error.message));

const isWorthAnother = (error) => isLost(error) || AGAIN.includes(String(sqlstate(error)).slice(0, 2));

/** Whether a COMMIT that failed so may have committed all the same. */
function mayBeCommitted(error) {
  const state = sqlstate(error);
  return state === '' ? isLost(error) : !ROLLED_BACK.includes(state) && !state.startsWith('23');
}

module.exports = { OutcomeUnknown, RequestFailed, isLost, isWorthAnother, mayBeCommitted, sqlstate };
