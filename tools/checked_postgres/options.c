// Linked into the programs of a PostgreSQL under the address sanitizer (tools/build_postgres.py). ASAN_OPTIONS may say more.

// PostgreSQL frees little when a program ends. A failed assertion is to be reported like a wrong address. And a backend that has
// reported must not look like one that was told to end.
const char *__asan_default_options(void) { return "detect_leaks=0:handle_abort=1:abort_on_error=1"; }
