/* shape: what follows from a config: heads, scales and what the cache holds. The config must be one that config_check
 * lets pass. */
#ifndef NOISED_SHAPE_H
#define NOISED_SHAPE_H

#include "base/err.h"
#include "model/config.h"

HeadShape config_heads(const Config *c);      /* after SAS and with the mean of conditioned noise, if any */
HeadShape config_base_heads(const Config *c); /* before either */
/* The angle by which pair k of a head of `dim` turns from one position to the next: theta^(-2 k / dim), scaled as
 * rope_scaling says. llama3: slow pairs are divided by the factor, fast ones stay, between them it goes smoothly. */
float config_rope_frequency(const Config *c, int k, int dim);
/* Parts of a head that rope rotates by numbers of their own: 0 no rope, 1 by the position, 2 (rope2d) the first half by
 * the row, the second by the column of the place in an image that config_place says. */
int config_rope_parts(const Config *c);
int config_rope_dim(const Config *c); /* of the heads that rope rotates, or of their part that it does */
/* The first row of a sequence (an image's class, or the row that is classified) is at (0, 0); those behind it walk the
 * image line by line. */
void config_place(const Config *c, int position, int place[2]);
float config_score_scale(const Config *c); /* of q . k: 1 / sqrt(dimension of the dotted vectors), unless unscaled */
int config_noise_heads(const Config *c);   /* distributions per layer: 1 (scope layer) or heads */
/* Whether anything is drawn at this noise_scale, a factor on sigma: at 0 the components of a mixture still are, but for
 * those of a sequence, whose means it weighs too. */
bool config_noise_acts(const Config *c, float scale);
int config_noise_components(const Config *c); /* of which a sequence has one (noise.h); 0: it has none */

int config_outputs(const Config *c);     /* columns of the logits: V, or the classes */
bool config_classifies(const Config *c); /* has classes, of tokens or of sequences */
/* Whether it continues texts. Other networks read whole sequences at once, and have no cache. */
bool config_generates(const Config *c);
bool config_ends(const Config *c, int id);   /* whether the token ends a text */
bool config_pools(const Config *c);          /* one row of logits for a sequence, not for a row */
int config_image_rows(const Config *c);      /* rows of one image, the first row of the sequence among them */
size_t config_image_floats(const Config *c); /* of one image */

/* COMPACT for a kind with a compact form, without SAS (mla and tpa, as their papers have it); EXPANDED otherwise. */
KvForm config_kv_form(const Config *c);
/* Whether a cache of this form is possible at all: only causal networks have one, and conditioned noise keeps a number
 * with every expanded key. */
int config_check_kv_form(const Config *c, KvForm form, Err *err);
int config_compact_width(const Config *c); /* floats of a compact row */

#endif
