package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// figures are what tests and benchmarks record, by test and name.
type figures map[string]map[string]float64

// picture is a plot: with an axis of lines, otherwise of bars.
type picture struct {
	File, Title, Unit, Axis string
	// Keys replace {} in the names of figures. They are the numbers of the axis. Names are those of
	// bars, if they are others.
	Keys, Names []string
	// Each adds to the legend by how much a line grows with each of the axis.
	Each   bool
	Series []series
}

type series struct {
	Name string
	// Figure is the test and the name of the values in figures.json. No test measures other values.
	Figure [2]string
	Values []float64
}

// readPlots reads the plots, with the values of figures.json.
func readPlots(folder string) ([]picture, error) {
	var recorded figures
	var plots []picture
	err := errors.Join(read(filepath.Join(folder, "figures.json"), &recorded),
		read(filepath.Join(folder, "plots.json"), &plots))
	for _, p := range plots {
		for i := range p.Series {
			s := &p.Series[i]
			for _, key := range p.Keys {
				of := func(name string) string { return strings.ReplaceAll(name, "{}", key) }
				if value, ok := recorded[of(s.Figure[0])][of(s.Figure[1])]; ok {
					s.Values = append(s.Values, value)
				}
			}
			if len(s.Values) != len(p.Keys) {
				err = errors.Join(err, fmt.Errorf("%s: %s needs %d figures, and has %d", p.File, s.Name,
					len(p.Keys), len(s.Values)))
			}
		}
	}
	return plots, err
}

func read(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func (p picture) save(file string) error {
	const width, height = 14 * vg.Centimeter, 8 * vg.Centimeter
	plot.DefaultFont.Variant = "Sans"
	drawn := plot.New()
	drawn.Title.Text, drawn.X.Label.Text, drawn.Y.Label.Text = p.Title, p.Axis, p.Unit
	drawn.X.Label.Padding, drawn.X.Min, drawn.Y.Min = vg.Points(2), 0, 0
	drawn.Legend.Top, drawn.Legend.Left = true, p.Axis != ""
	drawn.Legend.TextStyle.Font.Size, drawn.Legend.Padding = vg.Points(10), vg.Points(3)
	grid := plotter.NewGrid()
	grid.Vertical.Color = nil // it would cross the legend
	drawn.Add(grid)
	add := p.line
	if p.Axis == "" {
		add = p.bars
		names := p.Names
		if names == nil {
			names = p.Keys
		}
		drawn.NominalX(names...)
		drawn.X.Tick.Label.Font.Size = vg.Points(8)
		drawn.X.Min, drawn.X.Max = -0.5, float64(len(names))-0.5
	}
	top := 0.0
	for i, s := range p.Series {
		if err := add(drawn, i, s); err != nil {
			return err
		}
		top = max(top, slices.Max(s.Values))
	}
	// A line of the legend needs 9 % of the height; no line of the grid crosses it.
	drawn.Y.Max = top / (0.97 - 0.09*float64(len(p.Series)))
	drawn.Y.Tick.Marker = ticks(top)
	if p.Axis != "" {
		drawn.X.Tick.Marker = ticks(drawn.X.Max)
		drawn.X.Max *= 1.05 // space for the last number
	}
	return write(drawn, width, height, file)
}

// ticks are at most seven multiples of a round number, from 0 to the top.
func ticks(top float64) plot.ConstantTicks {
	step := math.Pow10(int(math.Floor(math.Log10(top / 5))))
	for _, factor := range []float64{2, 2.5, 2} { // 2, 5 and 10 of the power of ten
		if top/step > 6 {
			step *= factor
		}
	}
	var all plot.ConstantTicks
	for value := 0.0; value <= top; value += step {
		all = append(all, plot.Tick{Value: value, Label: strconv.FormatFloat(value, 'g', 6, 64)})
	}
	return all
}

// write also names fonts with the same widths, because few machines have those of the library.
func write(drawn *plot.Plot, width, height vg.Length, file string) error {
	to, err := drawn.WriterTo(width, height, "svg")
	if err != nil {
		return err
	}
	var svg bytes.Buffer
	if _, err := to.WriteTo(&svg); err != nil {
		return err
	}
	const name = "font-family:Liberation Sans"
	fonts := bytes.ReplaceAll(svg.Bytes(), []byte(name), []byte(name+",Arial,Helvetica,sans-serif"))
	return os.WriteFile(file, fonts, 0o644)
}

func (p picture) line(to *plot.Plot, i int, s series) error {
	points := make(plotter.XYs, len(p.Keys))
	for j, key := range p.Keys {
		x, err := strconv.ParseFloat(key, 64)
		if err != nil {
			return err
		}
		points[j] = plotter.XY{X: x, Y: s.Values[j]}
	}
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, dots.Color, dots.Shape = colour(i), colour(i), plotutil.Shape(i)
	to.Add(line, dots)
	name := s.Name
	if p.Each {
		name += fmt.Sprintf(": %.3g %s for each", slope(points), p.Unit)
	}
	to.Legend.Add(name, line, dots)
	return nil
}

// slope is that of the line with the least squares through the points.
func slope(points plotter.XYs) float64 {
	var n, x, y, xx, xy float64
	for _, p := range points {
		n, x, y, xx, xy = n+1, x+p.X, y+p.Y, xx+p.X*p.X, xy+p.X*p.Y
	}
	return (n*xy - x*y) / (n*xx - x*x)
}

func (p picture) bars(to *plot.Plot, i int, s series) error {
	const room = 270 // points for all bars
	wide := vg.Points(room / float64(len(p.Keys)*(len(p.Series)+1)))
	bars, err := plotter.NewBarChart(plotter.Values(s.Values), wide)
	if err != nil {
		return err
	}
	bars.Color, bars.LineStyle.Width = colour(i), 0
	bars.Offset = wide * vg.Length(2*i-len(p.Series)+1) / 2
	to.Add(bars)
	to.Legend.Add(s.Name, bars)
	return nil
}

// colour returns blue, orange and purple, which people who are colour-blind can tell apart, first.
func colour(i int) color.Color {
	return plotutil.Color(i + 2)
}
