// What a program in TypeScript sees of the package.
import { Pool } from 'pg';
import { idempotent, listen, OutcomeUnknown, run } from 'psp-client';

const pools = [listen(new Pool()), listen(new Pool())];

export async function pay(name: string): Promise<number> {
  try {
    const paid: { id: number } = await run(
      pools,
      async (client) => (await client.query<{ id: number }>('INSERT INTO unit (name) VALUES ($1) RETURNING 1 AS id', [name])).rows[0],
      { request: { key: name }, isolation: 'repeatable read' },
    );
    return paid.id;
  } catch (error) {
    if (error instanceof OutcomeUnknown) throw new Error(error.txId);
    throw error;
  }
}

export const handler = idempotent(pools, async (client, call) => ({ status: 201, body: call.body.toString() }), {
  caller: (call) => call.headers.authorization ?? '',
});
