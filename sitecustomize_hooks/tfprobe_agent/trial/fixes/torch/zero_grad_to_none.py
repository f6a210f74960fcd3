"""Let gradients go instead of filling them with zeros, where a program asks for zeros."""

from tfprobe_agent.trial.fixes.calls import replace

MODULES = ("torch",)


def patch(name, module, value, note):
    """Replace `zero_grad` of optimizers and modules."""

    def around(original):
        def zero_grad(self, set_to_none=True):
            if set_to_none:
                note.skipped("lets them go already")
            else:
                note.applied()
            return original(self, True)

        return zero_grad

    replace(module.optim.Optimizer, "zero_grad", around)
    replace(module.nn.Module, "zero_grad", around)
