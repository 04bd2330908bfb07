/* What people have instead of a checkpoint folder, and what they are told. */
#include "base/err.h"
#include "tests/support/test.h"
#include "weights/checkpoint.h"

#include <stdlib.h>
#include <string.h>

/* Puts an empty file of that name into a new folder and opens the folder, or the file itself. */
static void expect(const char *name, bool itself, const char *message) {
    const char *dir = test_dir();
    Checkpoint c;
    Err err = {""};
    const char *path = test_text("%s/%s", dir, name);
    test_write_file(path, "", 0);
    CHECK(checkpoint_open(&c, itself ? path : dir, &err) == -1);
    CHECK_MSG(strstr(err.msg, message), "%s: %s", name, err.msg);
    if (!strstr(message, "config.json")) CHECK(strstr(err.msg, "a folder with config.json, model.safetensors"));
}

TEST(foreign_formats_are_explained) {
    expect("llama-7b.Q4_K.gguf", true, "is GGUF: a folder");
    expect("llama-7b.Q4_K.gguf", false, "take the safetensors folder that the GGUF file was made from");
    expect("pytorch_model.bin", false, "has only pytorch_model.bin, a pickle");
    expect("pytorch_model.bin", false, "save_pretrained(m)");
    expect("consolidated.00.pth", false, "a pickle");
    expect("model.safetensors", true, "model.safetensors is a file: a folder");
    expect("model.safetensors", false, "config.json: No such file");
    expect("anything", false, "config.json: No such file");
}
