"""The files of a treebank's folder, told apart by their names."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from training.treebank import Sentence, read_sentences, read_text

DEV_SHARE = 10


@dataclass(frozen=True)
class TreebankFolder:
    """The ``.conllu`` and ``.conllu.xz`` files with ``train``, ``dev`` or ``test`` in their names; sorted.

    Raises:
        FileNotFoundError: if there is none to choose by.
    """

    directory: Path

    def __post_init__(self) -> None:
        if not self.files("dev"):
            found = sorted(path.name for path in self.directory.glob("*")) if self.directory.is_dir() else "no folder"
            raise FileNotFoundError(
                f"--treebank {self.directory} should be a folder with *dev*.conllu or *dev*.conllu.xz, has: {found}"
            )

    def files(self, part: str) -> list[Path]:
        """The files of one part."""
        return sorted([*self.directory.glob(f"*{part}*.conllu"), *self.directory.glob(f"*{part}*.conllu.xz")])

    def learned_and_chosen_by(self) -> tuple[list[Sentence], list[Sentence]]:
        """The sentences to learn from, and those that choose the best evaluation.

        Where there is no ``train`` file, the last tenth of ``dev`` chooses, and all before is learned from.
        """
        train, dev = read_files(self.files("train")), read_files(self.files("dev"))
        if train:
            return train, dev
        border = len(dev) - max(1, len(dev) // DEV_SHARE)
        return dev[:border], dev[border:]


def read_files(paths: Sequence[Path]) -> list[Sentence]:
    """The sentences of all files together."""
    return [sentence for path in paths for sentence in read_sentences(read_text(path))]
