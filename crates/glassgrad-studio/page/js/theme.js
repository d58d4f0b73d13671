// The theme is known before anything is drawn, so that no page flashes.
(() => {
  const themes = ["system", "light", "dark"];
  let theme = "system";
  try { theme = localStorage.getItem("glassgrad-theme") || "system"; } catch { /* A browser may refuse to keep things. */ }
  const apply = () => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };
  if (!themes.includes(theme)) theme = "system";
  apply();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const show = () => { button.textContent = `Theme: ${theme}`; };
    show();
    button.addEventListener("click", () => {
      theme = themes[(themes.indexOf(theme) + 1) % themes.length];
      try { localStorage.setItem("glassgrad-theme", theme); } catch { /* The choice then lasts as long as the page. */ }
      apply();
      show();
    });
  });
})();
