// Read by tex-svg.js, which comes next. Without a menu nothing is ever loaded from elsewhere.
window.MathJax = {
  tex: {
    inlineMath: [["\\(", "\\)"]],
    displayMath: [["\\[", "\\]"]],
    packages: { "[-]": ["autoload", "require"] },
  },
  options: { enableMenu: false, ignoreHtmlClass: ".*|", processHtmlClass: "arithmatex" },
};
