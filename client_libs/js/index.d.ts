// SPDX-License-Identifier: PostgreSQL
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Pool, PoolClient } from 'pg';

/** What makes two attempts the same request. */
export interface Request {
  /** Chosen by the client that begins it, and sent with each attempt. */
  key: string;
  /** What it asks for; the same key with another one is an error (PS422). */
  payload?: string;
  /** The role whose request it is, if not the connection's. */
  ofRole?: string;
  /** Seconds to wait for another attempt at the same semi-primary (55P03 afterwards); without: until it has ended. */
  waitS?: number;
}

export interface Options {
  /** Of the work, the first one among them; 30. */
  attempts?: number;
  /** Before the second attempt up to twice this, then the bound doubles; 10. */
  firstPauseMs?: number;
  /** 2000. */
  longestPauseMs?: number;
  /** After which an outcome that nobody tells counts as unknown; 60 000. */
  timeoutMs?: number;
  /** Of the transaction; the session's. */
  isolation?: 'read committed' | 'repeatable read';
  /** Served once; the result is JSON. */
  request?: Request;
  /** What the transaction must see: of psp.token() elsewhere. */
  token?: string;
  /** Called after the COMMIT with a token of it. */
  onToken?: (token: string) => void;
}

/** A pool, or one for each of several semi-primaries, the nearest first. */
export type Pools = Pool | readonly Pool[];

/** Commits what `work` does, once; resolves to what it returns. The work may run several times. */
export function run<T>(pools: Pools, work: (client: PoolClient) => Promise<T>, options?: Options): Promise<T>;

/** 'committed', 'aborted' or, of a very old transaction, 'forgotten'. */
export function outcome(pools: Pools, txId: string, options?: { timeoutMs?: number }): Promise<string>;

/** To be called once for each pool; returns it. */
export function listen<P extends Pool>(pool: P): P;

/** Nobody has told in time whether the transaction is committed. */
export class OutcomeUnknown extends Error {
  readonly code: '08007';
  readonly txId: string;
}

/** The request has failed for good, by psp.request_failed. */
export class RequestFailed extends Error {
  readonly result: unknown;
}

export interface Call {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

export interface Answer {
  status: number;
  body?: string;
  contentType?: string;
}

export interface WebOptions extends Omit<Options, 'request'> {
  /** Who calls: equal keys of different callers do not meet. */
  caller?: (call: Call) => string;
  ofRole?: string;
  /** 1. */
  waitS?: number;
}

type Next = (error?: unknown) => void;

/** The Idempotency-Key header, for node:http and Express. */
export function idempotent(
  pools: Pools,
  handler: (client: PoolClient, call: Call) => Promise<Answer>,
  options?: WebOptions,
): (request: IncomingMessage, response: ServerResponse, next?: Next) => Promise<void>;

/** The newest token of a user's writes in a cookie: request.pspToken, request.pspSetToken. */
export function readYourWrites(options?: {
  cookie?: string;
  maxAgeS?: number;
}): (request: IncomingMessage, response: ServerResponse, next: Next) => void;
