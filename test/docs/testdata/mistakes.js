// Says in #mistakes what is wrong with the pictures of the page, after Mermaid has drawn them.
const boxOf = element => element.getBoundingClientRect();
const apart = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1 ||
  a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
const said = element => element.textContent.trim();

// behind returns the boxes that an arrow crosses, except those that it joins.
function behind(arrow, boxes) {
  const length = arrow.getTotalLength(), toScreen = arrow.getScreenCTM();
  const points = Array.from({ length: 200 }, (_, i) =>
    arrow.getPointAtLength(length * i / 199).matrixTransform(toScreen));
  const joins = box => box.id.includes("flowchart-") &&
    arrow.id.includes(`_${box.id.replace(/.*flowchart-|-\d+$/g, "")}_`);
  return boxes.filter(box => !joins(box) && points.some(point =>
    !apart(boxOf(box), new DOMRect(point.x - 2, point.y - 2, 4, 4))));
}

function mistakesOf(picture) {
  const found = [];
  if (picture.viewBox.baseVal.width > 1220) {
    found.push(`is ${picture.viewBox.baseVal.width} wide: letters have less than 11 pixels`);
  }
  const titles = [...picture.querySelectorAll(".node, .cluster-label")];
  const labels = picture.querySelectorAll(titles.length ? "g.edgeLabel" : "text");
  const boxes = [...titles, ...labels].filter(said);
  boxes.forEach((box, i) => {
    for (const other of boxes.slice(0, i)) {
      if (!apart(boxOf(box), boxOf(other))) {
        found.push(`"${said(box)}" lies on "${said(other)}"`);
      }
    }
    if (boxOf(box).left < boxOf(picture).left - 4 || boxOf(box).right > boxOf(picture).right + 4) {
      found.push(`"${said(box)}" is cut off`);
    }
  });
  for (const arrow of picture.querySelectorAll("path.flowchart-link")) {
    behind(arrow, titles).forEach(box => found.push(`${arrow.id} is behind "${said(box)}"`));
  }
  return found;
}

async function main() {
  for (const [i, text] of document.querySelectorAll(".mermaid").entries()) {
    text.parentElement.innerHTML = (await mermaid.render(`diagram${i}`, said(text))).svg;
  }
  const all = [...document.querySelectorAll("figure")].flatMap(figure =>
    mistakesOf(figure.querySelector("svg")).map(mistake => `${figure.title}: ${mistake}`));
  document.getElementById("mistakes").textContent = all.join("\n") || "none";
}
mermaid.initialize({ startOnLoad: false });
main().catch(error => document.getElementById("mistakes").textContent = error);
