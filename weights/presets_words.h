/* presets_words: the networks of the noise-injection paper on word vectors, whose vocabulary and width the vectors say
 * and whose labels the data.
 *
 *     trec-base, -narrow, -deep, -wideshallow, -narrowdeep, -narrowshallow    encoder-decoder, its Table 1
 *     ner-wide, -deep, -shallow, -widedeep                                    bilstm, its Table 2 */
#ifndef NOISED_PRESETS_WORDS_H
#define NOISED_PRESETS_WORDS_H

#include "model/config.h"

/* False when there is no such preset. */
bool preset_words(Config *c, const char *name);
const char *preset_words_name(int i); /* NULL behind the last */

#endif
