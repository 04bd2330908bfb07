/* examples_load: labelled data from a file of any format that is known. */
#ifndef NOISED_EXAMPLES_LOAD_H
#define NOISED_EXAMPLES_LOAD_H

#include "trainer/tasks/examples.h"

/* The formats of a file.
 *     jsonl        {"text": "...", "text_b": "...", "label": "POS"} a line; a label is a string or an integer
 *     tsv          columns separated by tabs under a header that names them; quotes mean nothing
 *     cola         CoLA's four columns without a header: source, label, mark, sentence
 *     trec         "HUM:ind Who ...": the label is the first word up to a colon
 *     conll        a word a line, columns separated by tabs or spaces, the last one the label; an empty line ends a
 *                  sentence, and "-DOCSTART-" is none
 *     idx          MNIST's images; their labels in the file of the same name with "labels" for "images" and "idx1" for
 *                  "idx3"
 *     safetensors  `images` U8 [n, channels, height, width] and `labels` U8 [n]
 * In jsonl and tsv the keys of GLUE's files are known too. */
typedef enum ExamplesFormat {
    FORMAT_AUTO, /* by the file's name, idx by its first bytes */
    FORMAT_JSONL,
    FORMAT_TSV,
    FORMAT_COLA,
    FORMAT_TREC,
    FORMAT_CONLL,
    FORMAT_IDX,
    FORMAT_SAFETENSORS
} ExamplesFormat;
extern const char *const examples_formats[9]; /* NULL-terminated, "auto" first */

/* known: the labels that there are, in their order; another one is an error. NULL: those of the file, sorted. On
 * failure nothing needs to be freed. */
int examples_load(Examples *e, const char *path, ExamplesFormat format, const Labels *known, Err *err);

#endif
