import luigi
import numpy as np
from common import start, step


class Epoch(luigi.Task):
    n = luigi.IntParameter()

    def requires(self):
        return Epoch(n=self.n - 1) if self.n > 1 else []

    def output(self):
        return luigi.LocalTarget(f"epochs/{self.n}.npz", format=luigi.format.Nop)

    def run(self):
        if self.n > 1:
            with self.input().open() as file:
                C = np.load(file)["C"]
        else:
            C = start()
        C, shift = step(C)
        with self.output().open("w") as file:
            np.savez(file, C=C, shift=shift)


class Result(luigi.Task):
    def output(self):
        return luigi.LocalTarget("result.npy", format=luigi.format.Nop)

    def run(self):
        n, shift = 0, np.inf
        while shift >= 1e-4:
            n += 1
            epoch = yield Epoch(n=n)
            with epoch.open() as file:
                state = np.load(file)
                C, shift = state["C"], state["shift"]
        with self.output().open("w") as file:
            np.save(file, C)
