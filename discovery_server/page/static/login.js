// @ts-check
// The form leads back to the place that was open: its answer leads to `/`, and a browser then keeps
// what stands behind `#` of the address that was asked for.
const form = /** @type {HTMLFormElement} */ (document.querySelector("form"));
form.action = `/session${location.hash}`;
