// SPDX-License-Identifier: PostgreSQL
'use strict';

const { OutcomeUnknown, RequestFailed } = require('./lib/errors.js');
const { outcome } = require('./lib/outcome.js');
const { listen, run } = require('./lib/run.js');
const { idempotent, readYourWrites } = require('./lib/web.js');

module.exports = { OutcomeUnknown, RequestFailed, idempotent, listen, outcome, readYourWrites, run };
