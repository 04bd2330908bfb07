/* checkpoints: folders on disk for tests. */
#ifndef NOISED_TEST_CHECKPOINTS_H
#define NOISED_TEST_CHECKPOINTS_H

#include "weights/checkpoint.h"

/* A small model with every kind of parameter: gated, biases, noise, SAS convolutions (three dimensions), NOBLE. */
Config test_checkpoint_config(void);

/* Random weights of c, at step 7. */
void test_checkpoint_save(const char *dir, const Config *c, Dtype dtype);
/* Opening dir must fail with a message that holds `why`, or succeed when that is NULL; `what` is for the report. */
void test_checkpoint_open(const char *dir, const char *why, const char *what);
/* Whether p points into the mapping of the first file. */
bool test_is_mapped(const Checkpoint *c, const void *p);

/* The tensors of a file as SafeOuts, to be changed and saved again. */
typedef struct Edit {
    SafeFile file;
    SafeOut out[256];
    int n;
} Edit;
void edit_open(Edit *e, const char *dir);
SafeOut *edit_find(Edit *e, const char *name); /* must be there */
void edit_remove(Edit *e, const char *name);
SafeOut *edit_add(Edit *e, SafeOut out);
/* Saves tensors first..first+count-1 as dir/name. */
void edit_save_part(const Edit *e, int first, int count, const char *dir, const char *name);
void edit_save(Edit *e, const char *dir); /* all of them as model.safetensors; ends e */

/* A new folder with nothing but the config.json of c. */
const char *test_config_folder(const Config *c);
void test_write_text(const char *dir, const char *name, const char *text);
/* One more special token of the folder's tokenizer.json. */
void test_add_token(const char *dir, int id, const char *content);
/* The folder's tokenizer puts these special tokens of its own around a text; NULL: none. */
void test_tokens_around(const char *dir, const char *before, const char *behind);
/* Turns a file of ours into another program's: blanks out its metadata, and with it the digest. */
void test_strip_metadata(const char *dir, const char *name);
/* checkpoint_convert, what it says unheard. */
int test_convert(const char *from, const char *to, const Dtype *dtype, Err *err);
/* Exit status of build/noised-weights; all its output goes to out. */
int test_run_tool(const char *arguments, char out[4096]);

#endif
