#include "tokenizer/chat_templates.h"

#include "base/err.h"

#include <string.h>

/* The file as a string of the program's. */
#define EMBED(symbol, name)                                                                                            \
    __asm__(".pushsection .rodata\n" #symbol ": .incbin \"tokenizer/templates/" name ".jinja\"\n.byte 0\n"             \
            ".popsection");                                                                                            \
    extern const char symbol[];
EMBED(template_alpaca, "alpaca")
EMBED(template_chatml, "chatml")
EMBED(template_dialogue, "dialogue")
EMBED(template_gemma, "gemma")
EMBED(template_gemma_3, "gemma-3")
EMBED(template_llama_2, "llama-2")
EMBED(template_llama_3, "llama-3")
EMBED(template_llama_3_1, "llama-3.1")
EMBED(template_mistral, "mistral")
EMBED(template_mistral_nemo, "mistral-nemo")
EMBED(template_phi_3, "phi-3")
EMBED(template_phi_3_5, "phi-3.5")
EMBED(template_plain, "plain")
EMBED(template_qwen2_5, "qwen2.5")
EMBED(template_qwen3, "qwen3")
EMBED(template_smollm2, "smollm2")
EMBED(template_zephyr, "zephyr")

static const ChatTemplate templates[] = {
    {"alpaca", template_alpaca, NULL},
    {"chatml", template_chatml, NULL},
    {"dialogue", template_dialogue, "\n"}, /* a page of a novel, a paragraph a line */
    {"gemma", template_gemma, NULL},
    {"gemma-3", template_gemma_3, NULL},
    {"llama-2", template_llama_2, NULL},
    {"llama-3", template_llama_3, NULL},
    {"llama-3.1", template_llama_3_1, NULL},
    {"mistral", template_mistral, NULL},
    {"mistral-nemo", template_mistral_nemo, NULL},
    {"phi-3", template_phi_3, NULL},
    {"phi-3.5", template_phi_3_5, NULL},
    {"plain", template_plain, NULL},
    {"qwen2.5", template_qwen2_5, NULL},
    {"qwen3", template_qwen3, NULL},
    {"smollm2", template_smollm2, NULL},
    {"zephyr", template_zephyr, NULL},
};

const ChatTemplate *chat_template_named(const char *name) {
    for (size_t i = 0; i < COUNTOF(templates); i++)
        if (!strcmp(templates[i].name, name)) return &templates[i];
    return NULL;
}

const ChatTemplate *chat_template_same(const char *source) {
    for (size_t i = 0; i < COUNTOF(templates); i++)
        if (!strcmp(templates[i].source, source)) return &templates[i];
    return NULL;
}

void chat_template_names(Buffer *out) {
    for (size_t i = 0; i < COUNTOF(templates); i++) buffer_print(out, "%s%s", i ? ", " : "", templates[i].name);
}
