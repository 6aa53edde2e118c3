import numpy as np
from common import start, step
from metaflow import FlowSpec
from metaflow import step as flow_step


class KMeans(FlowSpec):
    @flow_step
    def start(self):
        self.C, self.more = start(), "more"
        self.next(self.epoch)

    @flow_step
    def epoch(self):
        self.C, self.shift = step(self.C)
        self.more = "more" if self.shift >= 1e-4 else "done"
        self.next({"more": self.epoch, "done": self.end}, condition="more")

    @flow_step
    def end(self):
        np.save("result.npy", self.C)


if __name__ == "__main__":
    KMeans()
