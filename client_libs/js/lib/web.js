// SPDX-License-Identifier: PostgreSQL
// The Idempotency-Key header, after draft-ietf-httpapi-idempotency-key-header, for node:http and what takes its handlers
// (Express): no key, 400; the key of another call, 422; the first one still runs, 409.
'use strict';

const { createHash } = require('node:crypto');
const { sqlstate } = require('./errors.js');
const { run } = require('./run.js');

const KEY_BYTES_MAX = 1000;

const problem = (status, title) => ({
  status, body: JSON.stringify({ title, status }), contentType: 'application/problem+json',
});

async function bodyOf(request) {
  if (request.body !== undefined) { // a parser was before us
    return Buffer.isBuffer(request.body) ? request.body : Buffer.from(typeof request.body === 'string' ? request.body : JSON.stringify(request.body));
  }
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** The header is a string of structured fields, with quotes, or bare. */
function requestOf(call, { caller, ofRole, waitS = 1 }) {
  const given = (call.headers['idempotency-key'] || '').trim().replace(/^"|"$/g, '');
  if (given === '') return problem(400, 'The header Idempotency-Key is missing');
  const key = caller ? JSON.stringify([caller(call), given]) : given;
  if (Buffer.byteLength(key) > KEY_BYTES_MAX) return problem(400, 'The header Idempotency-Key is too long');
  const payload = `${call.method} ${call.path} ${createHash('sha256').update(call.body).digest('hex')}`;
  return { key, payload, ofRole, waitS };
}

function refusal(error) {
  if (sqlstate(error) === 'PS422') return problem(422, 'The Idempotency-Key was used for another request');
  if (sqlstate(error) === '55P03') return problem(409, 'A request with this Idempotency-Key is being served');
  return null;
}

async function answerOf(pools, handler, call, options) {
  const request = requestOf(call, options);
  if (request.status) return request;
  try {
    return await run(pools, (client) => handler(client, call), { ...options, request });
  } catch (error) {
    const answer = refusal(error);
    if (!answer) throw error;
    return answer;
  }
}

/**
 * A handler (request, response[, next]) that serves each call once by `handler(client, call)`, in the transaction that
 * stores its answer {status, body, contentType}. `call`: {method, path, headers, body}. `caller(call)` tells users apart,
 * whose equal keys must not meet. Errors go to `next`, or end in 500.
 */
function idempotent(pools, handler, options = {}) {
  return async (request, response, next) => {
    try {
      const path = new URL(request.originalUrl || request.url, 'http://of.no.use').pathname;
      const call = { method: request.method, path, headers: request.headers, body: await bodyOf(request) };
      const { status, body = '', contentType = 'application/json' } = await answerOf(pools, handler, call, options);
      response.statusCode = status;
      response.setHeader('Content-Type', contentType);
      response.end(body);
    } catch (error) {
      if (next) return next(error);
      response.statusCode = 500;
      response.end();
    }
  };
}

const COOKIE = 'psp_token';

/**
 * A middleware (request, response, next) that keeps the newest token of a user's writes in a cookie: give
 * `request.pspToken` to `run` as `token`, and call `request.pspSetToken` as its `onToken`. A wrong token is refused by
 * psp.wait_for (22023).
 */
function readYourWrites({ cookie = COOKIE, maxAgeS = 60 } = {}) {
  return (request, response, next) => {
    const found = (request.headers.cookie || '').split(/;\s*/).find((one) => one.startsWith(`${cookie}=`));
    request.pspToken = found ? decodeURIComponent(found.slice(cookie.length + 1)) : undefined;
    request.pspSetToken = (token) => {
      response.setHeader('Set-Cookie', `${cookie}=${encodeURIComponent(token)}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${maxAgeS}`);
    };
    next();
  };
}

module.exports = { idempotent, readYourWrites };
