/* config_task: the keys of config.json that say what a network is for and what it reads: task, id2label, pool,
 * mask_token_id, input, block, dropout; and what network it is. Defaults are those of a language model. */
#ifndef NOISED_CONFIG_TASK_H
#define NOISED_CONFIG_TASK_H

#include "base/json/json_reader.h"
#include "model/config.h"
#include "weights/labels.h"

void config_task_read(Config *c, Labels *labels, JsonReader *r); /* labels: empty */

#endif
