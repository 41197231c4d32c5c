// Texts whose contrast to what is behind them is below 4.5 (WCAG 2, AA).
const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true })
function rgba(color) {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1)
  return canvas.getImageData(0, 0, 1, 1).data
}
function luminance(color) {
  const [r, g, b] = [...color].map(c => c / 255).map(c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
  return .2126 * r + .7152 * g + .0722 * b
}
function behind(node) {
  for (let e = node; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c }
  return rgba('Canvas')
}
const found = []
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
for (let text; (text = walker.nextNode());) {
  const node = text.parentElement
  if (!text.data.trim() || !node.checkVisibility() || node.closest('.hidden, .skip, svg, noscript')) continue
  const [one, two] = [luminance(rgba(getComputedStyle(node).color)), luminance(behind(node))]
  const contrast = (Math.max(one, two) + .05) / (Math.min(one, two) + .05)
  if (contrast < 4.5) found.push(text.data.slice(0, 40) + ' ' + contrast.toFixed(2))
}
return found
