// @ts-check
// The form leads back to the place that was open: its answer leads to `/`, and a browser then keeps
// what stands behind `#` of the address that was asked for. No module, which would be run after the
// form is shown: whoever is quick would lose the place.
document.addEventListener("submit", (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  form.action = `/session${location.hash}`;
});
// After a wrong token the form is the answer of `/session`, which cannot be loaded again.
history.replaceState(null, "", `/${location.hash}`);
