/* presets: built-in configurations, named <member>-<size>; a bare <member> means its tiny size.
 * Members: mha symmetric noiseformer-v1 noiseformer-v2 pairwise lecture (GPT-2 style: learned positions, layernorm,
 * gelu) and gqa mqa mla tpa differential sas noble noble-host (without its branches) noble-repository (Llama style:
 * rope, rmsnorm, gated); other tasks: mlm (fills masks), vit (digits of 28 x 28), image-tokens (14 x 14), each also
 * with -noble. Sizes: nano (tests), tiny (minutes on two cores), 124m, 350m, 1.5b (the papers'), 250m and 1.4b
 * (NOBLE's). Those on word vectors have names of their own: presets_words.h. */
#ifndef NOISED_PRESETS_H
#define NOISED_PRESETS_H

#include "base/err.h"
#include "model/config.h"
#include "weights/labels.h"

/* noiseformer-key and noiseformer-seq are noiseformer-v2 with noise of another span, noiseformer-code is one whose
 * sequences have one of 16 components (docs/codes.md). */
int preset_config(Config *c, const char *name, Err *err);

/* Writes the name of preset i = 0, 1, ..., the small sizes first; false behind the last. */
enum { PRESET_NAME = 32 };
bool preset_name(int i, char out[PRESET_NAME]);

/* What names a config: a preset, unless there is such a file or it has a slash; then the path of a config.json.
 * labels, which may be NULL: those of a file; a preset says only how many there are. */
bool preset_is(const char *name);
int preset_or_file(Config *c, Labels *labels, const char *name, Err *err);

#endif
