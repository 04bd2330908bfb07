/* ids: which ids were met before, as 128 bits of their SHA-256, so that two ids are one only where they are equal: 32
 * to 64 bytes an id. Not thread-safe. */
#ifndef NOISED_BATCH_IDS_H
#define NOISED_BATCH_IDS_H

#include "base/sha256.h"

typedef struct Id {
    uint64_t hash[2]; /* 0: none is here */
    int64_t line;     /* of the requests that has it; 0: none yet */
    bool done;        /* its result was there at the start */
} Id;

typedef struct Ids {
    Id *table; /* [capacity], a power of two */
    size_t n, capacity;
} Ids;

/* The entry of an id of this kind, zero but for its hash where the id is new; until the next call. NULL: no memory. */
typedef enum IdKind { ID_CUSTOM, ID_LINE /* of a line that has no other: its number */ } IdKind;
Id *ids_find(Ids *ids, IdKind kind, const char *id);
void ids_free(Ids *ids);

#endif
