/* corpus_map: a folder of ids (corpus_index.h) as rows in memory that nobody has read yet.
 *
 * The shards of a row are mapped side by side, so the row is one span, of which the pages that are asked for are read
 * and no others. That every shard has its sha256 is looked at once: DIR/checked.json keeps inode and time of change of
 * those that had it, and only a file with others is read again, by the whole team. So an open takes some system calls
 * a shard. Where checked.json cannot be written, all are read at every open. */
#ifndef NOISED_CORPUS_MAP_H
#define NOISED_CORPUS_MAP_H

#include "trainer/text/corpus.h"
#include "trainer/text/corpus_index.h"

/* x is the index of dir, finished. Takes nothing over. Fails by the name of the file that is missing, has another size
 * or another sha256. Whatever the outcome, corpus_close takes c. */
int corpus_map(Corpus *c, const char *dir, const CorpusIndex *x, Err *err);

/* Of shards that were written just now: what they are is known. */
int corpus_checked(const char *dir, const CorpusIndex *x, Err *err);

#endif
