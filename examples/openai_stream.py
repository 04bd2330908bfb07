"""Streams an answer through OpenAI's package (pip install openai): python3 openai_stream.py [URL]"""
import sys

from openai import OpenAI

url = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080"
client = OpenAI(base_url=url + "/v1", api_key="none")
model = client.models.list().data[0].id
noise = {"noise_seed": 1}  # what OpenAI does not know goes into extra_body
for event in client.completions.create(
    model=model, prompt="It was", max_tokens=40, seed=7, stream=True, extra_body=noise
):
    print(event.choices[0].text, end="", flush=True)
print()
