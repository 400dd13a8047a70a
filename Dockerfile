# docker build -t flash-dllm . && docker run --rm -p 7860:7860 flash-dllm
# The explorer with its embedded model on a CPU; also what a Hugging Face Space runs (space/README.md).
FROM python:3.11-slim

# a Space starts the container as user 1000
RUN useradd --create-home --uid 1000 explorer
WORKDIR /home/explorer/app

COPY requirements.txt requirements-mcp.txt ./
# wheels for the CPU: the usual ones bring gigabytes of CUDA
RUN python -m pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu -r requirements-mcp.txt

COPY app.py LICENSE NOTICE ./
COPY app ./app
COPY assets ./assets
COPY flash_dllm ./flash_dllm
COPY kernels ./kernels

USER explorer
ENV HF_HUB_OFFLINE=1 GRADIO_ANALYTICS_ENABLED=False PYTHONDONTWRITEBYTECODE=1
EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7860/gradio_api/info', timeout=4)"]
CMD ["python", "app.py", "--host", "0.0.0.0", "--port", "7860", "--mcp", "--locked"]
