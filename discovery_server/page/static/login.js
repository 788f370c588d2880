// @ts-check
// The form leads back to the place that was open: its answer leads to `/`, and a browser then keeps
// what stands behind `#` of the address that was asked for.
const form = /** @type {HTMLFormElement} */ (document.querySelector("form"));
form.action = `/session${location.hash}`;
// After a wrong token the form is the answer of `/session`, which cannot be loaded again.
history.replaceState(null, "", `/${location.hash}`);
