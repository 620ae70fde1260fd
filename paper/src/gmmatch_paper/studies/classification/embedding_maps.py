"""What corruption does to embeddings (fig:diffusion_noise_samples_mnist and its t-SNE figure)."""

from __future__ import annotations

from gmmatch_paper.studies.classification.image_study import CLIP, ImageStudy, Plan, quick_plan
from gmmatch_paper.studies.classification.maps import MAP_CORRUPTIONS, PICTURES, map_tables, maps_part

STUDY = ImageStudy(
    name="embedding-maps",
    title="Where corrupted images lie among the others",
    paper=("fig:diffusion_noise_samples_mnist", "fig:diffusion_noise_samples_tsne_mnist"),
    question="Do corrupted images stand apart in an encoder's space, and do the classes stay apart?",
    method=(
        "MNIST, clean and with 45% of the images corrupted by one of the five kinds of the paper's figure, is "
        "embedded and drawn by t-SNE (after PCA to at most 50 dimensions). The shares in the table are of each "
        "image's ten nearest neighbors in the encoder's own space, not on the map."
    ),
    differs="MobileNetV2 trained on ImageNet instead of CLIP ViT-B/32, and 1,000 images.",
    found=(
        "Corrupted images stand wholly apart: nearly all neighbors of a noisy or patched image are noisy or "
        "patched too, and none of a clean image's. Only images with a part cut out mix with the clean ones. The "
        "classes of the clean images stay apart."
    ),
    missing="CLIP ViT-B/32.",
    verdict=lambda results: "drawn; the paper states no number",
    full=Plan("ylecun/mnist", CLIP, MAP_CORRUPTIONS, seeds=1, limit=1000, test_limit=1),
    quick=quick_plan(MAP_CORRUPTIONS, limit=200, test_limit=1),
    lacks=("ratios", "methods", "recipe", "downstream", "networks", "test_limit", "best_epoch"),
    part=maps_part,
    tables=map_tables,
    pictures=PICTURES,
)
