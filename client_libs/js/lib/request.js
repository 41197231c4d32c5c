// SPDX-License-Identifier: PostgreSQL
// Requests that are served once, however often a client asks (psp.request, docs/once.md).
'use strict';

const { RequestFailed } = require('./errors.js');

const ASK =
  'SELECT state, failed, result::pg_catalog.text AS result ' +
  'FROM psp.request($1, $2, of_role => $3, wait => pg_catalog.make_interval(secs => $4))';

/** The stored result, as {result}, or null: the request is new, and the transaction has to store one. Throws RequestFailed. */
async function ask(client, request) {
  const { key, payload = '', ofRole = null, waitS = null } = request;
  const row = (await client.query(ASK, [key, payload, ofRole, waitS])).rows[0];
  if (row.state === 'new') return null;
  const result = row.result === null ? null : JSON.parse(row.result);
  if (row.failed) throw new RequestFailed(result);
  return { result };
}

/** Stores it, and returns what every later attempt gets. */
async function store(client, result) {
  const text = JSON.stringify(result === undefined ? null : result);
  await client.query('SELECT psp.request_done($1::pg_catalog.jsonb)', [text]);
  return JSON.parse(text);
}

module.exports = { ask, store };
