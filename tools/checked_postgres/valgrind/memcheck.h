// For a PostgreSQL that is built with USE_VALGRIND under the address sanitizer (tools/build_postgres.py): what it tells Valgrind
// about palloc's memory and about pages without a pin, the sanitizer is told. It would see malloc's blocks only, of which
// PostgreSQL makes many pieces.
#pragma once

#include <sanitizer/asan_interface.h>

#define VALGRIND_MAKE_MEM_NOACCESS(place, size) ASAN_POISON_MEMORY_REGION(place, size)
#define VALGRIND_MAKE_MEM_DEFINED(place, size) ASAN_UNPOISON_MEMORY_REGION(place, size)
#define VALGRIND_MAKE_MEM_UNDEFINED(place, size) ASAN_UNPOISON_MEMORY_REGION(place, size)
#define VALGRIND_MEMPOOL_ALLOC(pool, place, size) ASAN_UNPOISON_MEMORY_REGION(place, size)

// What is freed is told by VALGRIND_MAKE_MEM_NOACCESS, too, since assertions are on.
#define VALGRIND_MEMPOOL_FREE(pool, place) ((void)0)
#define VALGRIND_MEMPOOL_CHANGE(pool, old_place, new_place, size) ((void)0)
#define VALGRIND_CREATE_MEMPOOL(pool, redzone, is_zeroed) ((void)0)
#define VALGRIND_DESTROY_MEMPOOL(pool) ((void)0)

// The address sanitizer does not know what has no value yet.
#define VALGRIND_CHECK_MEM_IS_DEFINED(place, size) ((void)0)
#define VALGRIND_GET_VBITS(place, bits, size) 0
