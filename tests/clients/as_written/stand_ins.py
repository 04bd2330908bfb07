"""A plugin of pytest: what vLLM's tests of its entrypoints import, as far as they speak HTTP.

Their server is noised over the demo, their tokenizer asks it, and what only a vLLM of one's own or a download gives (its
classes, weights, adapters) is a name that skips the test which touches it.
"""
import os
import subprocess
import sys
import tempfile
import types

import openai
import pytest
import requests

from model import BUILD, POSITIONS, stand_in

VERSION = subprocess.run([os.path.join(BUILD, "noised"), "--version"], stdout=subprocess.PIPE, text=True,
                         check=True).stdout.split()[1]
servers = []


class Absent:
    """Something of theirs that is not here."""

    def __init__(self, name):
        self.name = name

    def __call__(self, *arguments, **named):
        pytest.skip(f"needs {self.name}")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.name}.{name}")


class RemoteOpenAIServer:
    DUMMY_API_KEY = "token-abc123"

    def __init__(self, model, arguments, *, env_dict=None, seed=0, auto_port=True, max_wait_seconds=None):
        given = dict(zip(arguments, [*arguments[1:], None]))
        options = ["--model", stand_in(model), "--model-name", model, "--any-model", "--threads", "1"]
        options += ["--port", "0", "--seed", str(seed or 0)]
        if "--max-model-len" in given:
            options += ["--context", str(min(POSITIONS, int(given["--max-model-len"])))]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        self.process = subprocess.Popen([os.path.join(BUILD, "noised"), *options], stdout=subprocess.PIPE, text=True,
                                        env=environment)
        self.url_root = self.process.stdout.readline().strip().removeprefix("listening on ")
        self.host, self.port = "127.0.0.1", int(self.url_root.rpartition(":")[2])
        while requests.get(self.url_for("health"), timeout=10).status_code != 200:
            pass
        servers.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        servers.remove(self)
        self.process.terminate()
        self.process.wait()

    def url_for(self, *parts):
        return self.url_root + "/" + "/".join(parts)

    def get_client(self, **named):
        return openai.OpenAI(base_url=self.url_for("v1"), api_key=self.DUMMY_API_KEY, max_retries=0,
                             **{"timeout": 600, **named})

    def get_async_client(self, **named):
        return openai.AsyncOpenAI(base_url=self.url_for("v1"), api_key=self.DUMMY_API_KEY, max_retries=0,
                                  **{"timeout": 600, **named})


class Encoding(dict):
    input_ids = property(lambda self: self["input_ids"])


class Tokenizer:
    """The served one, of the server that the module has started."""

    def _post(self, path, **body):
        answer = requests.post(servers[-1].url_for(path), json=body, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def encode(self, text, add_special_tokens=True):
        return self._post("tokenize", prompt=text, add_special_tokens=add_special_tokens)["tokens"]

    def decode(self, tokens, **named):
        return self._post("detokenize", tokens=list(tokens))["prompt"]

    def __call__(self, text, add_special_tokens=True, **named):
        return Encoding(input_ids=self.encode(text, add_special_tokens))

    def add_tokens(self, tokens, **named):
        return len(tokens)

    def save_pretrained(self, folder):
        pass

    def convert_tokens_to_ids(self, tokens):
        return [self.encode(t, False)[0] for t in tokens]

    def convert_ids_to_tokens(self, tokens):
        return [self.decode([t]) for t in tokens]

    def apply_chat_template(self, conversation, add_generation_prompt=False, continue_final_message=False, tokenize=True,
                            **named):
        text = self._post("apply-template", messages=conversation, add_generation_prompt=add_generation_prompt,
                          continue_final_message=continue_final_message)["prompt"]
        return self.encode(text, False) if tokenize else text

    @property
    def vocab_size(self):
        return requests.get(servers[-1].url_for("tokenizer_info"), timeout=60).json()["vocab_size"]


class ModelConfig:
    """Of what is served."""

    def __init__(self, **named):
        pass

    def get_vocab_size(self):
        return Tokenizer().vocab_size


class Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")


def put(name, **members):
    module = Module(name)
    module.__path__ = []
    module.__dict__.update(members)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], child, module)


class AutoTokenizer:
    from_pretrained = staticmethod(lambda *arguments, **named: Tokenizer())


def accept(value):
    """A validator of vLLM's: the answer's JSON as an object."""
    return types.SimpleNamespace(**{k: accept(v) if isinstance(v, dict) else
                                    [accept(x) if isinstance(x, dict) else x for x in v] if isinstance(v, list) else v
                                    for k, v in value.items()})


class Response:
    model_validate = staticmethod(accept)


def check_embeddings_close(*, embeddings_0_lst, embeddings_1_lst, name_0, name_1, tol=1e-3):
    for a, b in zip(embeddings_0_lst, embeddings_1_lst, strict=True):
        dot = sum(x * y for x, y in zip(a, b, strict=True))
        sizes = (sum(x * x for x in a) * sum(x * x for x in b)) ** 0.5
        assert dot / sizes >= 1 - tol, f"{name_0} and {name_1} differ"


for name in ("torch", "torch.nn", "torch.nn.functional", "transformers", "huggingface_hub", "cloudpickle", "vllm",
             "vllm.transformers_utils", "vllm.entrypoints", "vllm.entrypoints.openai", "safetensors", "safetensors.torch"):
    put(name)
put("torch", long=None, iinfo=lambda of: types.SimpleNamespace(min=-2**63, max=2**63 - 1))
put("transformers", AutoTokenizer=AutoTokenizer)
put("vllm.transformers_utils.tokenizer", get_tokenizer=lambda *arguments, **named: Tokenizer())
put("vllm.entrypoints.openai.protocol", EmbeddingResponse=Response, RerankResponse=Response,
         ScoreResponse=Response, ClassificationResponse=Response, PoolingResponse=Response)
put("vllm.config", ModelConfig=ModelConfig)
put("vllm.version", __version__=VERSION)
put("tests.models.embedding.utils", check_embeddings_close=check_embeddings_close)
put("tests.utils", RemoteOpenAIServer=RemoteOpenAIServer)
sys.modules["huggingface_hub"].snapshot_download = lambda *arguments, **named: tempfile.mkdtemp()  # nothing in it
