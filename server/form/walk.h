/* walk: the walk of form.h from the inside, for who tries many tokens from one place (vocabulary.c). */
#ifndef NOISED_FORM_WALK_H
#define NOISED_FORM_WALK_H

#include "server/form/graph.h"

/* One way in which the text so far begins a text of the form. `seen` of a text: its bytes so far; of a class: the bytes
 * of a code point so far (step_way). */
typedef struct Way {
    int32_t node, stack;
    uint32_t seen;
} Way;

/* What has to follow, on top of what `parent` says: `node`; or, with a count, the repetition `node` of which so many
 * are done or under way. Equal frames are one (hash chains), and a frame is made behind its parent, so whoever goes
 * back drops the last ones. Frame 0 is the bottom. */
typedef struct Frame {
    int32_t node, count, parent;
    int16_t depth, next; /* next: of its chain; 0: none */
} Frame;

struct FormWalk {
    Form *form; /* held */
    bool may_end, skips_space;
    int n_ways, n_frames;
    Way ways[FORM_WAYS];
    Frame frames[FORM_FRAMES];
    int16_t heads[FORM_FRAMES]; /* of the chains */
};

/* A place that was tried: ways of the scratch's pool, and how many frames there were. */
typedef struct Place {
    int first, n, n_frames;
    bool may_end;
} Place;

enum { FORM_POOL = 1 << 15, FORM_BYTES = 1024 }; /* ways at once, bytes of a token */

struct FormScratch {
    uint64_t *visited; /* [2 FORM_VISITS] open addressing; a slot is in use where stamps[] is the closing's */
    uint32_t *stamps, stamp;
    uint64_t *todo;               /* [FORM_VISITS] nodes and stacks */
    Way *pool;                    /* [FORM_POOL] */
    int32_t *renamed;             /* [FORM_FRAMES] */
    Place places[FORM_BYTES + 1]; /* of a token that is tried: behind its first bytes */
    int64_t n_visits;             /* since whoever counts has set it to 0 */
};

/* places[0] is where the walk stands. places[i + 1], and its ways behind those of places[i], is where `byte` leads from
 * places[i]; false, and nothing of it left, when it may not come. */
void walk_begin(const FormWalk *w, FormScratch *s);
bool walk_step(FormWalk *w, FormScratch *s, int i, uint8_t byte);
void walk_back(FormWalk *w, int n_frames); /* drops all frames behind the first so many */

#endif
