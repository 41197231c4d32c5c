// Writes rows of a table, found by their primary key, without a statement.
#pragma once

#include "access/genam.h"
#include "access/skey.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "utils/relcache.h"

// A table whose rows are written. Only AFTER ROW triggers fire, and only those that fire in the session's replication role: the
// caller knows that there are no others. Writes are those of one command: none of them finds what another one has written.
typedef struct RowWriter {
  Relation table;
  TupleTableSlot *row;    // the row that is to be written; the caller stores it
  TupleTableSlot *found;  // what FindRow has found
  int key_count;
  const int16 *key_columns;   // of the primary key, in the order of its index
  Datum key[INDEX_MAX_KEYS];  // what FindRow looks for; the caller stores it, or calls TakeKeyOfRow
  bool key_nulls[INDEX_MAX_KEYS];

  // of rows.c only
  EState *estate;
  ResultRelInfo *info;
  MemoryContext before;
  Relation key_index;
  ScanKeyData scan_keys[INDEX_MAX_KEYS];
  Bitmapset *unique_columns;
  Datum *given;  // of `row`, where a key that stays has taken its place
  IndexScanDesc scan;
  bool has_triggers;
} RowWriter;

// The table must be open, with RowExclusiveLock at least. `updated`: the columns that an update may change, as in a range table entry:
// PostgreSQL cleans up duplicates in indexes on the others. The current memory context is the writer's own until CloseRows.
RowWriter *OpenRows(Relation table, Bitmapset *updated);
void CloseRows(RowWriter *writer);

// What is allocated for one row. NextRow frees it.
MemoryContext MemoryOfRow(RowWriter *writer);
void NextRow(RowWriter *writer);

void TakeKeyOfRow(RowWriter *writer);
bool FindRow(RowWriter *writer);

// Errors: all that INSERT and UPDATE give, but those of CHECKs. UpsertRow waits for another transaction that writes a row with this key.
void InsertRow(RowWriter *writer);
void UpsertRow(RowWriter *writer);

// Deletes the row with the writer's key, if there is one and `is_meant`, given it (as it is then) and `context`, agrees. Null: always.
void DeleteRow(RowWriter *writer, bool (*is_meant)(RowWriter *, const void *), const void *context);
