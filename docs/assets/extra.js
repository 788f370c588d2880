// Tables that are wider than the screen can be scrolled with the keyboard, too.
new MutationObserver(() => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset__table")) {
    box.tabIndex = 0;
  }
}).observe(document.body, { childList: true, subtree: true });
