// SPDX-License-Identifier: PostgreSQL
// What run does after each kind of error, with sessions that are played.
'use strict';

const assert = require('node:assert');
const { test } = require('node:test');
const { OutcomeUnknown, RequestFailed, run } = require('../index.js');
const { both, format, parse } = require('../lib/places.js');

const serverError = (code) => Object.assign(new Error(`error ${code}`), { severity: 'ERROR', code });
const lost = () => new Error('Connection terminated unexpectedly');

/** A pool whose queries give what `answers` says for their beginnings: rows, or an error; a function is called. */
function played(answers = {}, { name = 'pool' } = {}) {
  const pool = { name, queries: [], released: [], answers };
  const query = async (text, parameters) => {
    pool.queries.push(text);
    const found = Object.keys(pool.answers).find((beginning) => text.startsWith(beginning));
    let answer = found === undefined ? undefined : pool.answers[found];
    if (typeof answer === 'function') answer = answer(parameters);
    if (answer instanceof Error) throw answer;
    if (answer !== undefined) return answer;
    if (text.startsWith('SELECT pg_catalog.to_regprocedure')) return { rows: [{ found: true }] };
    if (text.startsWith('SELECT CASE')) return { rows: [{ id: 'tx' }] };
    if (text.startsWith('SELECT psp.token')) return { rows: [{ token: `psp1.0a1b2c3d.-.${name === 'near' ? '1.5.7' : '2.7.8'}` }] };
    return { rows: [], command: text.split(' ')[0] };
  };
  pool.query = query;
  pool.connect = async () => {
    if (pool.answers.connect) throw pool.answers.connect;
    return { query, release: (closes) => pool.released.push(closes) };
  };
  return pool;
}

/** An answer that differs from time to time; the last one stays. */
const inTurn = (...answers) => () => (answers.length > 1 ? answers.shift() : answers[0]);
const quick = { firstPauseMs: 0.01, longestPauseMs: 0.1, timeoutMs: 50 };
const committed = { rows: [], command: 'COMMIT' };

test('commits once, and gives what the work returns', async () => {
  const pool = played();
  assert.strictEqual(await run(pool, async (client) => { await client.query('UPDATE'); return 7; }), 7);
  assert.deepStrictEqual(pool.released, [false]);
  assert.strictEqual(pool.queries.filter((text) => text === 'COMMIT').length, 1);
});

for (const code of ['40001', '40P01', '08006', '57P01', '53300']) {
  test(`runs the work again after ${code} of COMMIT`, async () => {
    let runs = 0;
    const pool = played({ COMMIT: inTurn(serverError(code), committed), 'SELECT psp.outcome': { rows: [{ is: 'aborted' }] } });
    await run(pool, async () => { runs++; }, quick);
    assert.strictEqual(runs, 2);
    assert.deepStrictEqual(pool.released, [true, false]);
  });
}

for (const error of [serverError('08007'), lost(), serverError('57014')]) {
  test(`asks for the outcome after ${error.message}`, async () => {
    let runs = 0;
    const pool = played({ COMMIT: error, 'SELECT psp.outcome': { rows: [{ is: 'committed' }] } });
    assert.strictEqual(await run(pool, async () => ++runs, quick), 1);
  });
}

test('a violated constraint is not run again', async () => {
  let runs = 0;
  const pool = played({ COMMIT: serverError('23505') });
  await assert.rejects(run(pool, async () => { runs++; }, quick), { code: '23505' });
  assert.strictEqual(runs, 1);
});

test('an error of the work is passed on', async () => {
  await assert.rejects(run(played(), async () => { throw new TypeError('mine'); }, quick), TypeError);
});

test('nobody knows: OutcomeUnknown with the id', async () => {
  const pool = played({ COMMIT: lost(), 'SELECT psp.outcome': lost() });
  await assert.rejects(run(pool, async () => 1, quick), (error) => error instanceof OutcomeUnknown && error.txId === 'tx');
});

test('forgotten is unknown', async () => {
  const pool = played({ COMMIT: lost(), 'SELECT psp.outcome': { rows: [{ is: 'forgotten' }] } });
  await assert.rejects(run(pool, async () => 1, quick), OutcomeUnknown);
});

test('without psp nobody can tell', async () => {
  const pool = played({ COMMIT: lost(), 'SELECT pg_catalog.to_regprocedure': { rows: [{ found: false }] } });
  await assert.rejects(run(pool, async () => 1, quick), /Connection terminated/);
});

test('a COMMIT that has rolled back is an error', async () => {
  const pool = played({ COMMIT: { rows: [], command: 'ROLLBACK' } });
  await assert.rejects(run(pool, async () => 1, quick), { code: '25P02' });
});

test('another semi-primary is taken when one is gone, with its token', async () => {
  const [near, next] = [played({}, { name: 'near' }), played({}, { name: 'next' })];
  const pools = [near, next];
  await run(pools, async () => 1, quick);
  near.answers.connect = lost();
  await run(pools, async () => 2, quick);
  assert.ok(next.queries.includes('SELECT psp.wait_for($1)'));
  await run(pools, async () => 3, quick); // its own commits are there
  assert.strictEqual(next.queries.filter((text) => text.startsWith('SELECT psp.wait_for')).length, 1);
});

test('a commit whose answer is lost is carried', async () => {
  const near = played({ COMMIT: inTurn(lost(), committed), 'SELECT psp.outcome': { rows: [{ is: 'committed' }] } }, { name: 'near' });
  const next = played({ 'SELECT psp.outcome': { rows: [{ is: 'committed' }] } }, { name: 'next' });
  const [pools, tokens] = [[near, next], []];
  await run(pools, async () => 1, { ...quick, onToken: (token) => tokens.push(token) });
  assert.deepStrictEqual(tokens, ['psp1.0a1b2c3d.-.0.7.8']); // of no semi-primary: it must be applied, there, too
  assert.ok(next.queries.some((text) => text.startsWith('SELECT psp.request_done')));
});

test('a wait in vain is not repeated', async () => {
  const pool = played({ 'SELECT psp.wait_for': serverError('57014') });
  await assert.rejects(run(pool, async () => 1, { ...quick, token: 'psp1.invented' }), { code: '57014' });
  assert.strictEqual(pool.queries.length, 1);
});

test('one wait does for two tokens', () => {
  const merged = (one, other) => format(both(parse(`psp1.0a1b2c3d.-.${one}`), parse(`psp1.0a1b2c3d.-.${other}`)));
  assert.strictEqual(merged('1.5.7', '1.6.8'), 'psp1.0a1b2c3d.-.1.6.8');
  assert.strictEqual(merged('1.6.8', '1.5.7'), 'psp1.0a1b2c3d.-.1.6.8');
  assert.strictEqual(merged('1.5.7', '2.7.9'), 'psp1.0a1b2c3d.-.2.7.9');
  assert.strictEqual(merged('1.5.7', '2.6.9'), 'psp1.0a1b2c3d.-.0.6.9');
});

test('a request that is known is not served again', async () => {
  const pool = played({ 'SELECT state': { rows: [{ state: 'known', failed: false, result: '{"paid":true}' }] } });
  const result = await run(pool, async () => assert.fail('it was served'), { request: { key: 'k' } });
  assert.deepStrictEqual(result, { paid: true });
});

test('the result of a new request is stored, and is what is stored', async () => {
  let stored;
  const pool = played({
    'SELECT state': { rows: [{ state: 'new', failed: null, result: null }] },
    'SELECT psp.request_done': ([text]) => { stored = text; return { rows: [] }; },
  });
  const result = await run(pool, async () => ({ at: new Date(0) }), { request: { key: 'k', payload: 'p' } });
  assert.deepStrictEqual(result, { at: '1970-01-01T00:00:00.000Z' });
  assert.strictEqual(stored, JSON.stringify(result));
});

test('a request that has failed for good is told as such', async () => {
  const pool = played({ 'SELECT state': { rows: [{ state: 'known', failed: true, result: '"no money"' }] } });
  await assert.rejects(run(pool, async () => 1, { request: { key: 'k' } }), (error) => error instanceof RequestFailed && error.result === 'no money');
});
