// Makes each tile figure of the page when it comes near the screen: a page of ten shows at once.
const figures = new Map();
const seen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting || figures.has(target.id)) continue;
    const data = JSON.parse(target.querySelector(".live-data").textContent);
    figures.set(target.id, tileFigure(target.querySelector(".live-here"), data));
    seen.unobserve(target);
  }
}, { rootMargin: "300px" });
document.querySelectorAll(".live").forEach((figure) => seen.observe(figure));
