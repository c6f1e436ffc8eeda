"""A loop inside Tk: coroutines and widgets on one thread.

python examples/tk_guest.py
"""

from __future__ import annotations

import asyncio
import math
import tkinter

import mainspring


class TkTimer:
    def __init__(self, root, delay, callback):
        self.root = root
        self.name = root.after(math.ceil(delay * 1000), callback)

    def cancel(self):
        self.root.after_cancel(self.name)


class TkHost:
    """What a guest run needs of Tk."""

    def __init__(self, root):
        self.root = root

    def add_reader(self, fd, callback):
        self.root.tk.createfilehandler(fd, tkinter.READABLE, lambda *_: callback())

    def remove_reader(self, fd):
        self.root.tk.deletefilehandler(fd)

    def call_later(self, delay, callback):
        return TkTimer(self.root, delay, callback)


async def count_down(label, clicked):
    for number in (3, 2, 1):
        label["text"] = str(number)
        await asyncio.sleep(0.05)
    label["text"] = "click!"
    await clicked.wait()
    return "clicked"


def main():
    root = tkinter.Tk()
    label = tkinter.Label(root)
    label.pack()
    clicked = asyncio.Event()
    button = tkinter.Button(root, text="OK", command=clicked.set)
    button.pack()
    run = mainspring.start_guest_run(
        count_down(label, clicked), TkHost(root), done_callback=lambda _: root.quit()
    )
    # Nobody is needed to try this: the program clicks by itself.
    root.after(500, button.invoke)
    root.mainloop()
    root.destroy()
    print(run.result())


if __name__ == "__main__":
    main()
