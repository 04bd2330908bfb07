/* examples_reader: what the readers of the formats share (examples.h). */
#ifndef NOISED_EXAMPLES_READER_H
#define NOISED_EXAMPLES_READER_H

#include "trainer/tasks/examples.h"
#include "trainer/text/lines.h"

/* Appends a unit; examples_end_example makes all units since the last call an example. Strings are borrowed. */
int examples_add(Examples *e, const Lines *l, const char *text, const char *second, const char *label,
                 const Labels *known, Err *err);
void examples_end_example(Examples *e);

int examples_read_jsonl(Examples *e, const Labels *known, Err *err);
int examples_read_tsv(Examples *e, const Labels *known, Err *err);
int examples_read_cola(Examples *e, const Labels *known, Err *err);
int examples_read_trec(Examples *e, const Labels *known, Err *err);
int examples_read_conll(Examples *e, const Labels *known, Err *err);
int examples_read_idx(Examples *e, const Labels *known, Err *err);
int examples_read_safetensors(Examples *e, const Labels *known, Err *err);

/* Of a whole file of images: n units with labels bytes[0..n), named by their number. */
int examples_label_images(Examples *e, const uint8_t *bytes, const char *path, const Labels *known, Err *err);

#endif
