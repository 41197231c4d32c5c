// SPDX-License-Identifier: PostgreSQL
// Pauses between attempts: exponential, with full jitter, bounded.
'use strict';

/** Up to a bound that doubles with each failure (from 1). */
const pauseMs = (failures, firstMs, longestMs, random = Math.random) =>
  random() * Math.min(longestMs, firstMs * 2 ** Math.min(failures, 30));

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

module.exports = { pause, pauseMs };
