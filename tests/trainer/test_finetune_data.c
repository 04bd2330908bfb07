#include "tests/trainer/test_finetune.h"

#include "base/err.h"
#include "tests/support/checkpoints.h"
#include "tests/support/daemon.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

const char *finetune_data(void) {
    static const char *const words[] = {"river", "mill", "wheel", "word"};
    const char *dir = test_dir();
    char text[8192], tags[8192];
    size_t n = 0, m = 0;
    for (int i = 0; i < 24; i++) {
        const char *word = words[i % 4], *what = i / 4 % 2 ? "stone" : "book";
        n += (size_t)snprintf(text + n, sizeof text - n, "{\"text\":\"the %s and the %s\",\"label\":\"%s\"}\n", word,
                              what, i / 4 % 2 ? "HARD" : "SOFT");
        m += (size_t)snprintf(tags + m, sizeof tags - m, "the\tO\n%s\tO\nand\tO\nthe\tO\n%s\tB-%s\n\n", word, what,
                              i / 4 % 2 ? "HARD" : "SOFT");
    }
    test_write_text(dir, "train.jsonl", text);
    test_write_text(dir, "train.conll", tags);
    test_write_text(dir, "dev.jsonl",
                    "{\"text\":\"the mill and the stone\",\"label\":\"HARD\"}\n"
                    "{\"text\":\"the wheel and the book\",\"label\":\"SOFT\"}\n"
                    "{\"text\":\"the book\",\"label\":\"SOFT\"}\n");
    return dir;
}

ChildResult finetune_child(const char *dir, const char *args) {
    char full[2048];
    size_t used = 0;
    const char *model = test_checkpoint(CHECKPOINT_SMALL);
    for (const char *p = args; *p; p++) {
        bool name = p[0] == '%' && (p[1] == 'D' || p[1] == 'M');
        used += (size_t)snprintf(full + used, sizeof full - used, name ? "%s" : "%.1s",
                                 !name         ? p
                                 : p[1] == 'D' ? dir
                                               : model);
        BUG_ON(used >= sizeof full);
        if (name) p++;
    }
    return trainer_run(full);
}

void finetune_check(const char *dir, const char *args, int status, const char *says) {
    ChildResult r = finetune_child(dir, args);
    CHECK_MSG(r.status == status && strstr(r.output, says), "%s: status %d, wanted \"%s\":\n%s", args, r.status, says,
              r.output);
    free(r.output);
}
