#include "model/footprint.h"

#include "base/err.h"
#include "base/team.h"
#include "model/attention/op_attention.h"
#include "model/ops/op.h"
#include "model/sas.h"
#include "model/shape.h"

#include <math.h>
#include <string.h>

/* Every product keeps its input and its output, where NOBLE's are the host's but for what lies between them. What is
 * done to either on the way (rope, activation, residual) is about what inputs that several products share are counted
 * too often. */
static double products(const Model *m) {
    double floats = 0;
    for (int i = 0; i < m->params.n; i++) {
        const Param *p = &m->params.params[i];
        const int *dims = p->weight->dims;
        if (p->bin != 1 || !p->matrix) continue;
        floats += strstr(p->name, ".noble.") ? 2 * MIN(dims[0], dims[1]) : dims[0] + dims[1];
    }
    return floats;
}

/* Noise of span sequence makes the queries once more, or the rows. */
static double code_floats(const Config *c) {
    HeadShape h = config_heads(c);
    if (c->noise.scope == NOISE_NONE || c->noise.span != SPAN_SEQUENCE) return 0;
    return c->noise.site == SITE_RESIDUAL ? c->hidden_size : (double)h.heads * h.k_dim;
}

static double attention_floats(const Config *c) {
    HeadShape h = config_heads(c);
    return (double)(h.heads + h.kv_heads) * h.k_dim + (double)h.v_heads * h.v_dim;
}

/* What keys and values are made of, for the kinds that cache it in their place. */
static double latent_floats(const Config *c) {
    const AttentionKind *kind = c->attention.kind; /* NULL: another network without attention */
    return kind && kind->compact ? kind->compact->width(c) : 0;
}

/* Of a row in one block: between projection and scores stand about three shapes of q, k and v and of their latents, and
 * what SAS has on its way to them. */
enum { SHAPES = 3, SAS_SHAPES = 5 };

static double block_floats(const Model *m, int shapes) {
    const Config *c = &m->cfg;
    double between = shapes * attention_floats(c) + SHAPES * latent_floats(c);
    return 1.1 * (products(m) + between + code_floats(c) + 2.0 * c->hidden_size);
}

/* What every further member of the team computes in: tiles of scores and of their noise, keys and values as they are
 * packed, and what it packs of other products. */
static double scratch_floats(const Config *c, int64_t rows) {
    HeadShape h = config_heads(c);
    double tiles = c->noise.scope == NOISE_NONE ? 2 : 3.5;
    return fmin((double)rows, c->max_positions) * (tiles * ATTENTION_TILE + 16 * MAX(h.k_dim, h.v_dim));
}

/* A gate is kept beside what it is multiplied with. */
static double gate_floats(const Config *c) { return c->mlp.gated ? c->mlp.width : 0; }

/* Of the gradients about half a block's stand at a time, or all of a wide feed-forward layer's; those of the logits are
 * where the logits were, as is a block that is computed again (tape.h). */
size_t footprint_training(const Model *m, int64_t rows, bool recompute) {
    const Config *c = &m->cfg;
    double n_blocks = c->n_layers, outputs = config_outputs(c);
    double block = block_floats(m, SHAPES + (c->sas.heads ? SAS_SHAPES : 0)) + gate_floats(c);
    double hidden = 1.1 * (2.0 + c->mlp.gated) * c->mlp.width;
    double floats = recompute ? n_blocks * c->hidden_size + fmax(outputs, block + fmax(0.5 * block, hidden))
                              : n_blocks * block + fmax(0.6 * block, hidden) + outputs;
    floats = (double)rows * (floats + 3.0 * c->hidden_size) + (team_size() - 1) * scratch_floats(c, rows);
    return (size_t)(sizeof(float) * floats);
}

/* Of a feed-forward layer's hidden rows only what its second product reads is whole (op_feed_forward; all is with
 * NOBLE, and where gates of 4 bits end inside a block), and what SAS has on the way is of a few rows (sas_expand). */
static double served_block_floats(const Model *m, double rows) {
    const Config *c = &m->cfg;
    bool whole = c->noble.rank || (c->mlp.gated && c->mlp.width % INT4_OUTS);
    double hidden = whole ? 0 : c->mlp.width * (1.0 + c->mlp.gated);
    double floats = rows * (block_floats(m, SHAPES) - 1.1 * hidden + (whole ? gate_floats(c) : 0));
    if (c->sas.heads) floats += 1.1 * SAS_SHAPES * fmin(rows, SAS_ROWS) * attention_floats(c);
    return floats + fmin(rows * hidden, (double)team_size() * PIECE_SUMS);
}

/* The compact cache: keys and values are restored, a sequence at a time, and turned if that comes behind SAS; or, of a
 * kind that absorbs, every head's queries are as wide as a cached row, once more on their way there, and so are the
 * rows mixed of them. */
static double compact_floats(const Config *c, double rows) {
    const CompactForm *compact = c->attention.kind->compact;
    double restored = c->max_positions * (2.0 * attention_floats(c) + (c->sas.rope_post ? config_rope_dim(c) : 0));
    if (!compact || !compact->absorbs || c->sas.heads) return restored;
    return fmax(restored, rows * config_heads(c).heads * (compact->width(c) + 2.0 * compact->value_width(c)));
}

size_t footprint_serving(const Model *m, int64_t rows, int64_t wanted, KvForm form) {
    const Config *c = &m->cfg;
    double floats = served_block_floats(m, (double)rows) + (double)rows * 2 * c->hidden_size;
    floats += (double)wanted * (config_outputs(c) + 2.0 * c->hidden_size);
    if (form == KV_COMPACT) floats += compact_floats(c, (double)rows);
    return (size_t)(sizeof(float) * floats);
}
