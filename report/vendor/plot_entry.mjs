export {plot, areaY, barX, barY, rectY, ruleX, ruleY, dot, dotX, link, lineY, text, textX, tickX, tickY, axisX, axisY, gridX, gridY, stackY, tip, pointerX, pointer, frame} from "@observablehq/plot";
