// SPDX-License-Identifier: PostgreSQL
// Several semi-primaries, the nearest first: which one is used, and what must be seen at the next one. The same rules as in the packages for
// Python and Go.
'use strict';

const FORM = /^psp1\.([0-9a-f]{8})\.([0-9a-f]{8}|-)\.([0-9]{1,9})\.([0-9]{1,18})\.([0-9]{1,18})$/;
const BACK_AFTER_MS = 60_000;

/** Its parts, or null. Of spId 0: of no semi-primary; what counts is `newest`, once it is applied. */
function parse(text) {
  const parts = FORM.exec(text);
  if (!parts) return null;
  const [, cluster, history, spId, watermark, newest] = parts;
  return { cluster, history, spId: Number(spId), watermark: BigInt(watermark), newest: BigInt(newest) };
}

const format = (token) => ['psp1', token.cluster, token.history, token.spId, token.watermark, token.newest].join('.');

const isOlder = (one, other) =>
  one.newest < other.newest || (one.newest === other.newest && one.watermark <= other.watermark);

/** A token whose wait is one for both. */
function both(one, other) {
  if (!one || one.cluster !== other.cluster) return other;
  const [older, newer] = isOlder(one, other) ? [one, other] : [other, one];
  if (older.spId === newer.spId || newer.watermark >= older.newest) return newer;
  return { ...newer, spId: 0 }; // at its semi-primary it may be seen without the other's
}

class Places {
  constructor(count, now = Date.now) {
    this.count = count;
    this.now = now;
    this.place = 0;
    this.leftMs = 0;
    this.seen = null;
    this.spIds = new Map();
  }

  /** The number of the pool to use. The nearest is tried again after a while. */
  get at() {
    if (this.place && this.now() - this.leftMs >= BACK_AFTER_MS) this.place = 0;
    return this.place;
  }

  /** It cannot be reached: the next one, unless another run has gone there already. */
  leave(place) {
    this.spIds.delete(place); // it may come back with less, for a moment
    if (this.place !== place) return;
    this.place = (place + 1) % this.count;
    this.leftMs = this.now();
  }

  /** The token to wait for before a transaction there. Null: all was seen or committed there. */
  wantedAt(place) {
    return this.seen && this.spIds.get(place) !== this.seen.spId ? format(this.seen) : null;
  }

  note(place, text) {
    const token = parse(text);
    this.spIds.set(place, token.spId);
    this.seen = both(this.seen, token);
  }

  /** What a fence's token covers; returns the token of that, which counts at its own place, too. */
  noteFence(text) {
    const token = { ...parse(text), spId: 0 };
    this.seen = both(this.seen, token);
    return format(token);
  }

  forget() {
    this.seen = null;
  }
}

module.exports = { Places, both, format, parse };
