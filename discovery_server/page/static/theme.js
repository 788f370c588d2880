// The theme that was chosen in this browser, before anything is drawn; without one, that of the system.
try {
  const theme = localStorage.getItem("theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch { /* nothing may be stored here, so the system decides */ }
