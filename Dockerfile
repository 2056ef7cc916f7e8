# uncover with everything but Sen2Cor.   docker build -t uncover .
# docker run --rm -v "$PWD:/data" uncover map model.uncover S2A_MSIL1C_….SAFE --out map
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY requirements requirements
COPY src src
RUN pip wheel --no-cache-dir --constraint requirements/pinned.txt --wheel-dir /wheels ".[all]"

FROM python:3.12-slim
# libexpat: the wheels of rasterio and pyogrio bring GDAL, but not this.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libexpat1 \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels "uncover[all]"
RUN useradd --create-home uncover && mkdir /data && chown uncover /data
USER uncover
WORKDIR /data
ENTRYPOINT ["uncover"]
CMD ["--help"]
