/* tags: which words belong to one chunk, by conlleval's rules, so that IOB1, IOB2 and tags with E and S can be read
 * alike. A tag is O or a letter and a type, "B-PER". A chunk ends and another one begins
 *     where the type changes, before B and S, and behind E and S;
 * an I behind O begins one too. */
#ifndef NOISED_TAGS_H
#define NOISED_TAGS_H

#include <stdbool.h>
#include <string.h>

static inline bool tag_is_outside(const char *tag) { return !strcmp(tag, "O"); }
static inline bool tag_is_one(const char *tag) {
    return tag_is_outside(tag) || (tag[0] && strchr("BIES", tag[0]) && tag[1] == '-' && tag[2]);
}
static inline const char *tag_type(const char *tag) { return tag_is_outside(tag) ? "" : tag + 2; }

/* Whether no chunk reaches from the word of `before` to the next one, of `tag`. */
static inline bool tag_is_boundary(const char *before, const char *tag) {
    return strcmp(tag_type(before), tag_type(tag)) || strchr("BS", tag[0]) || strchr("ES", before[0]);
}

#endif
