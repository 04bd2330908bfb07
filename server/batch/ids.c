#include "server/batch/ids.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Where the hash is, or would be. */
static Id *place_of(const Ids *ids, const uint64_t hash[2]) {
    size_t at = (size_t)hash[0] & (ids->capacity - 1);
    while (ids->table[at].hash[0] && memcmp(ids->table[at].hash, hash, 2 * sizeof *hash))
        at = (at + 1) & (ids->capacity - 1);
    return &ids->table[at];
}

static bool grow(Ids *ids) {
    enum { FIRST = 1024 };
    Ids larger = {.n = ids->n, .capacity = ids->capacity ? 2 * ids->capacity : FIRST};
    larger.table = try_calloc(larger.capacity, sizeof *larger.table);
    if (!larger.table) return false;
    for (size_t i = 0; i < ids->capacity; i++)
        if (ids->table[i].hash[0]) *place_of(&larger, ids->table[i].hash) = ids->table[i];
    free(ids->table);
    *ids = larger;
    return true;
}

Id *ids_find(Ids *ids, IdKind kind, const char *id) {
    unsigned char digest[SHA256_BYTES];
    uint64_t hash[2];
    Sha256 sum;
    sha256_init(&sum);
    sha256_add(&sum, &kind, sizeof kind);
    sha256_add(&sum, id, strlen(id));
    sha256_peek(&sum, digest);
    memcpy(hash, digest, sizeof hash);
    hash[0] |= 1;
    if (ids->n >= ids->capacity / 4 * 3 && !grow(ids)) return NULL;
    Id *found = place_of(ids, hash);
    if (!found->hash[0]) {
        memcpy(found->hash, hash, sizeof hash);
        ids->n++;
    }
    return found;
}

void ids_free(Ids *ids) {
    free(ids->table);
    *ids = (Ids){0};
}
