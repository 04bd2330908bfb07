/* config_json: config.json <-> Config (docs/spec.md 2.1), written in config_print.c. Unknown keys inside our own
 * objects (and at the top level of a model_type "noised" file) are an error that names the key; the llama and gpt2
 * configs of Hugging Face are read as they stand. */
#ifndef NOISED_CONFIG_JSON_H
#define NOISED_CONFIG_JSON_H

#include "base/buffer.h"
#include "base/err.h"
#include "model/config.h"
#include "weights/labels.h"

/* labels, which may be NULL, gets the names of the classes. Also runs config_check. */
int config_json_parse(Config *c, Labels *labels, const char *text, size_t n, Err *err);
int config_json_load(Config *c, Labels *labels, const char *path, Err *err);
/* "a, b": the keys of another program's file at path that say nothing about the network. */
int config_json_unused(const char *path, Buffer *names, Err *err);
/* malloc'ed; parse(print(c)) == c. Without labels (NULL) a classification has no id2label: for comparisons. */
char *config_json_print(const Config *c, const Labels *labels);

#endif
