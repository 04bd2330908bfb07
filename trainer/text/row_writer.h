/* row_writer: a row of token ids into its shards, one after the other (corpus_index.h). */
#ifndef NOISED_ROW_WRITER_H
#define NOISED_ROW_WRITER_H

#include "tokenizer/tokenizer.h"
#include "trainer/text/corpus_index.h"

typedef struct RowWriter {
    const char *dir;
    CorpusIndex *index; /* whose row grows */
    CorpusRowKind kind;
    int fd; /* of the shard that has begun and is not full; -1: none */
    Sha256 hash;
    unsigned char *room;
} RowWriter;

/* Behind what the index says of the row: what the last shard has beyond that, from before a kill, goes. dir and index
 * are borrowed. Whatever the outcome, row_close takes it. */
int row_open(RowWriter *w, const char *dir, CorpusIndex *index, CorpusRowKind kind, Err *err);
int row_append(RowWriter *w, const int *ids, size_t n, Err *err);
int row_sync(RowWriter *w, Err *err);   /* what the index says is on the disk */
int row_finish(RowWriter *w, Err *err); /* the same, and the last shard has its sha256 */
void row_close(RowWriter *w);

#endif
