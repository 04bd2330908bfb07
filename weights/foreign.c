#include "weights/foreign.h"

#include "base/text.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char wanted[] = "a folder with config.json, model.safetensors (or its shards) and tokenizer.json is read";

static int explain_gguf(const char *path, Err *err) {
    return err_set(err,
                   "%.200s is GGUF: %s; take the safetensors folder that the GGUF file was made from, the quantised "
                   "numbers cannot be turned back",
                   path, wanted);
}

static int explain_file(const char *path, Err *err) {
    if (text_ends(path, ".gguf")) return explain_gguf(path, err);
    return err_set(err, "%.200s is a file: %s", path, wanted);
}

static bool has(DIR *d, const char *end, char name[256]) {
    const struct dirent *e;
    rewinddir(d);
    while ((e = readdir(d))) {
        if (!text_ends(e->d_name, end)) continue;
        snprintf(name, 256, "%s", e->d_name);
        return true;
    }
    return false;
}

static int explain_folder(const char *path, DIR *d, Err *err) {
    static const char *const pickles[] = {".bin", ".pth", ".pt"};
    char name[256];
    if (has(d, ".safetensors", name) || has(d, ".safetensors.index.json", name)) return 0;
    for (size_t i = 0; i < COUNTOF(pickles); i++)
        if (has(d, pickles[i], name))
            return err_set(err,
                           "%.150s has only %.80s, a pickle, which is a program and not read: %s; python3 -c \"from "
                           "transformers import *; m='%.60s'; "
                           "AutoModelForCausalLM.from_pretrained(m).save_pretrained(m)\" writes them",
                           path, name, wanted, path);
    return has(d, ".gguf", name) ? explain_gguf(path, err) : 0;
}

int foreign_explain(const char *path, Err *err) {
    struct stat st;
    if (stat(path, &st)) return 0;
    if (!S_ISDIR(st.st_mode)) return explain_file(path, err);
    DIR *d = opendir(path);
    if (!d) return 0;
    int rc = explain_folder(path, d, err);
    closedir(d);
    return rc;
}
